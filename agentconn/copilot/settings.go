package copilot

import "nod/state"

// Names of the settings of a session.
const (
	settingModel       = "model"
	settingEffort      = "effort"
	settingMode        = "mode"
	settingPermissions = "permissions"
)

// offers returns what a server can do.
func (c *conn) offers(d dialled) state.Offers { return state.Offers{Terminal: d.terminal} }
