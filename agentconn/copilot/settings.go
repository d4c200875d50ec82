package copilot

import (
	"encoding/json"

	"nod/state"
)

// Names of the settings of a session.
const (
	settingModel  = "model"
	settingEffort = "effort"
)

// offers returns what a server can do.
func (c *conn) offers(d dialled) state.Offers { return state.Offers{Terminal: d.terminal} }

// attachments names what goes along with a message: nod loads nothing.
func attachments(json.RawMessage) []state.MessageAttachment { return nil }

type quotaData struct{}

func (a *agent) quota(quotaData) {}
