package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"nod/agentconn/plain"
	"nod/state"
)

// Names of the settings of a session.
const (
	settingModel    = "model"
	settingEffort   = "effort"
	settingSandbox  = "sandbox"
	settingApproval = "approvalPolicy"
)

// modelsWithin bounds the wait for the list of models: without it a model can be
// typed.
const modelsWithin = 3 * time.Second

// wireModel is a model of model/list.
type wireModel struct {
	Model       string `json:"model"`
	DisplayName string `json:"displayName"`
	Description string `json:"description"`
	Efforts     []struct {
		Effort string `json:"reasoningEffort"`
	} `json:"supportedReasoningEfforts"`
}

// settings returns what can be chosen for a new session of a version of Codex.
func (v version) settings(models []wireModel) []state.Setting {
	model := state.Setting{Name: settingModel, Title: "Model", Open: true, Mutable: true, Description: "Leave it empty for the one in Codex's own configuration."}
	effort := state.Setting{Name: settingEffort, Title: "Reasoning effort", Open: true, Mutable: true, Description: "How long the model may think. Leave it empty for what the model is used to."}
	for _, m := range models {
		model.Choices = append(model.Choices, state.Choice{Value: m.Model, Label: m.DisplayName, Description: m.Description})
		for _, e := range m.Efforts {
			if _, has := effort.Choice(e.Effort); !has {
				effort.Choices = append(effort.Choices, state.Choice{Value: e.Effort, Label: e.Effort})
			}
		}
	}
	if effort.Choices == nil {
		for _, e := range []string{"minimal", "low", "medium", "high", "xhigh"} {
			effort.Choices = append(effort.Choices, state.Choice{Value: e, Label: e})
		}
	}
	approval := []state.Choice{
		{Value: "untrusted", Label: "Before all but harmless commands", Description: "It asks before each command that it does not know to be safe, and before each edit."},
		{Value: "on-failure", Label: "When the sandbox stops it", Description: "It works in the sandbox without asking, and asks when something fails there."},
		{Value: "on-request", Label: "When it wants to leave the sandbox", Description: "It works in the sandbox without asking. The model decides when to ask for more."},
		{Value: "never", Label: "Never", Description: "Warning: nothing is asked. You can watch and stop it, but approve nothing.", Risky: true},
	}
	if v.pages() { // the versions with pages have no on-failure
		approval = slices.Delete(approval, 1, 2)
	}
	return []state.Setting{model, effort,
		{Name: settingSandbox, Title: "Sandbox", Default: "workspace-write", Choices: []state.Choice{
			{Value: "read-only", Label: "Read only", Description: "Commands can read files and change nothing."},
			{Value: "workspace-write", Label: "The folder", Description: "Commands can write in the session's folder and in temporary ones, and have no network."},
			{Value: "danger-full-access", Label: "No sandbox", Description: "Warning: commands can do all that you can on this machine, network included.", Risky: true},
		}},
		{Name: settingApproval, Title: "When it asks you", Default: "untrusted", Choices: approval},
	}
}

// Settings implements agentconn.Controllable: of a present version, without its
// models.
func (p place) Settings() []state.Setting { return version{numbers: [3]int{0, 171, 0}}.settings(nil) }

// Settings implements agentconn.Controller. The models are asked for once.
func (c *conn) Settings(ctx context.Context) []state.Setting {
	c.modelling.Lock()
	defer c.modelling.Unlock()
	if c.models == nil {
		ctx, cancel := context.WithTimeout(ctx, modelsWithin)
		defer cancel()
		var page struct {
			Data []wireModel `json:"data"`
		}
		err := c.call(ctx, "model/list", map[string]any{"limit": 100}, func(r json.RawMessage) error { return json.Unmarshal(r, &page) })
		if err != nil {
			c.log.Warn("the models are not known", "err", err)
		}
		c.models = page.Data
	}
	return c.version.settings(c.models)
}

// inForce are the settings of a thread, as thread/start, thread/resume and
// thread/fork are answered with them.
type inForce struct {
	Model    string          `json:"model"`
	Effort   string          `json:"reasoningEffort"`
	Approval json.RawMessage `json:"approvalPolicy"` // a word, or an object of one key
	Sandbox  struct {
		Type string `json:"type"`
	} `json:"sandbox"`
}

// sandboxWords are Codex's words for what thread/start calls otherwise.
var sandboxWords = map[string]string{"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access"}

func (f inForce) values() map[string]string {
	return map[string]string{
		settingModel: f.Model, settingEffort: f.Effort, settingApproval: oneWord(f.Approval),
		settingSandbox: cmp.Or(sandboxWords[f.Sandbox.Type], f.Sandbox.Type),
	}
}

// configure shows which settings are in force. The reader calls it.
func (c *conn) configure(ctx context.Context, th *thread, values map[string]string) {
	changed := map[string]jsontext.Value{}
	for name, v := range values {
		if v = plain.Shorten(v, 100); v != "" && v != th.config[name] {
			raw, _ := json.Marshal(v) // a string always encodes
			changed[name] = jsontext.Value(raw)
			th.config[name] = v
		}
	}
	if len(changed) == 0 {
		return
	}
	actions := []state.Action{&state.SessionConfigChanged{Config: changed}}
	if changed[settingModel] != nil {
		actions = append(actions, &state.SessionModelChanged{Model: state.ModelSelection{ID: th.config[settingModel]}})
	}
	c.apply(ctx, th, actions...)
}

// configOf returns the settings that a session is known to have.
func configOf(s *state.Session) map[string]string {
	out := map[string]string{}
	if s.Config != nil {
		for name, raw := range s.Config.Values {
			var v string
			if json.Unmarshal(raw, &v) == nil {
				out[name] = v
			}
		}
	}
	return out
}

// settingsUpdated follows what was changed in another client.
func (c *conn) settingsUpdated(ctx context.Context, p told) {
	if th := c.threads[p.ThreadID]; th != nil {
		c.configure(ctx, th, inForce(p.Settings).values())
	}
}

// threadSettings are the settings of thread/settings/updated.
type threadSettings struct {
	Model    string          `json:"model"`
	Effort   string          `json:"effort"`
	Approval json.RawMessage `json:"approvalPolicy"`
	Sandbox  struct {
		Type string `json:"type"`
	} `json:"sandboxPolicy"`
}

// chosen puts what a person has chosen for a message into the parameters of
// turn/start, and returns it.
func chosen(m state.Message, params map[string]any) map[string]string {
	var values map[string]string
	if json.Unmarshal(m.Meta[state.MessageConfig], &values) != nil {
		return nil
	}
	maps.DeleteFunc(values, func(name, v string) bool { return v == "" || name != settingModel && name != settingEffort })
	for name, v := range values {
		params[name] = v
	}
	return values
}
