package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"time"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn"
	"nod/agentconn/plain"
	"nod/state"
)

// Names of the settings of a session.
const (
	settingModel       = "model"
	settingEffort      = "effort"
	settingMode        = "mode"
	settingPermissions = "permissions"
)

// modelsWithin bounds the wait for the list of models: without it a model can be
// typed.
const modelsWithin = 3 * time.Second

// permissionChoices are the permission modes. The first stands where nothing is chosen.
var permissionChoices = []state.Choice{
	{Value: string(rpc.PermissionModeManual), Label: "Before everything", Description: "It asks before each command, each edit and each read."},
	{Value: string(rpc.PermissionModeAssisted), Label: "When a model finds it risky", Description: "A model looks at each request first, and approves what it finds harmless. Not every account has it."},
	{Value: string(rpc.PermissionModeAllowAll), Label: "Never", Description: "Warning: nothing is asked. You can watch and stop it, but approve nothing.", Risky: true},
}

// settings returns what can be chosen for a session.
func settings(models []sdk.ModelInfo) []state.Setting {
	model := state.Setting{Name: settingModel, Title: "Model", Open: true, Mutable: true, Description: "Leave it empty for the one in Copilot's own configuration."}
	effort := state.Setting{Name: settingEffort, Title: "Reasoning effort", Open: true, Mutable: true, Description: "How long the model may think. Leave it empty for what the model is used to."}
	if p, own := byok(); p != nil {
		model.Default, model.Description = own, "One of your own model provider."
	}
	for _, m := range models {
		model.Choices = append(model.Choices, state.Choice{Value: m.ID, Label: m.Name})
		for _, e := range m.SupportedReasoningEfforts {
			if _, has := effort.Choice(e); !has {
				effort.Choices = append(effort.Choices, state.Choice{Value: e, Label: e})
			}
		}
	}
	if effort.Choices == nil {
		for _, e := range []string{"low", "medium", "high", "xhigh"} {
			effort.Choices = append(effort.Choices, state.Choice{Value: e, Label: e})
		}
	}
	return []state.Setting{model, effort,
		{Name: settingMode, Title: "Mode", Mutable: true, Default: string(rpc.SessionModeInteractive), Choices: []state.Choice{
			{Value: string(rpc.SessionModeInteractive), Label: "Interactive", Description: "It works on what you say, and then waits for you."},
			{Value: string(rpc.SessionModePlan), Label: "Plan", Description: "It makes a plan first, and asks you before it begins."},
			{Value: string(rpc.SessionModeAutopilot), Label: "Autopilot", Description: "It goes on by itself until it finds the task done.", Risky: true},
		}},
		{Name: settingPermissions, Title: "When it asks you", Mutable: true, Default: permissionChoices[0].Value, Choices: permissionChoices},
	}
}

// Settings implements agentconn.Controllable, without the models.
func (own) Settings() []state.Setting { return settings(nil) }

// Settings implements agentconn.Controllable, without the models.
func (*remote) Settings() []state.Setting { return settings(nil) }

// Settings implements agentconn.Controller. The SDK asks for the models once. Those of
// a model provider of one's own Copilot does not know.
func (c *conn) Settings(ctx context.Context) []state.Setting {
	if p, _ := byok(); p != nil {
		return settings(nil)
	}
	var models []sdk.ModelInfo
	err := c.callWithin(ctx, modelsWithin, func(ctx context.Context) (err error) {
		models, err = c.client.ListModels(ctx)
		return err
	})
	if err != nil {
		c.log.Info("the models are not known", "err", err)
	}
	return settings(models)
}

// atFirst are the settings that a new session takes once it is open.
func atFirst(config map[string]string) map[string]string {
	return map[string]string{settingMode: config[settingMode], settingPermissions: cmp.Or(config[settingPermissions], permissionChoices[0].Value)}
}

// chosen is what a person has chosen for a message.
func chosen(m state.Message) (values map[string]string) {
	_ = json.Unmarshal(m.Meta[state.MessageConfig], &values) // nothing, mostly
	return values
}

// choose has a session take the settings that are not in force. That they are then
// is told by events.
func (c *conn) choose(ctx context.Context, id string, values, now map[string]string) error {
	s := c.session(id)
	if s == nil {
		return errLost
	}
	wants := func(name string) bool { return values[name] != "" && values[name] != now[name] }
	set := func(what string, f func(ctx context.Context) error) error {
		return publicly(c.call(ctx, f), "Copilot did not take "+what+", and nothing was sent")
	}
	switch {
	case wants(settingModel):
		err := set("the model", func(ctx context.Context) error {
			res, err := s.RPC.Model.SwitchTo(ctx, &rpc.ModelSwitchToRequest{ModelID: values[settingModel], ReasoningEffort: state.Optional(values[settingEffort])})
			if err == nil && state.Value(res.Status) != "applied" && state.Value(res.Status) != "unchanged" {
				err = &agentconn.PublicError{Message: "Copilot did not take the model, and nothing was sent. " + plain.Shorten(cmp.Or(state.Value(res.Warning), state.Value(res.Message), "Choose another one."), 300)}
			}
			return err
		})
		if err != nil {
			return err
		}
	case wants(settingEffort):
		err := set("the reasoning effort", func(ctx context.Context) error {
			_, err := s.RPC.Model.SetReasoningEffort(ctx, &rpc.ModelSetReasoningEffortRequest{ReasoningEffort: values[settingEffort]})
			return err
		})
		if err != nil {
			return err
		}
	}
	if wants(settingMode) {
		err := set("the mode", func(ctx context.Context) error {
			_, err := s.RPC.Mode.Set(ctx, &rpc.ModeSetRequest{Mode: rpc.SessionMode(values[settingMode])})
			return err
		})
		if err != nil {
			return err
		}
	}
	if wants(settingPermissions) {
		return set("when it should ask you", func(ctx context.Context) error {
			res, err := s.RPC.Permissions.SetMode(ctx, &rpc.PermissionsSetModeRequest{Mode: rpc.PermissionMode(values[settingPermissions])})
			if err == nil && !res.Success {
				err = &agentconn.PublicError{Message: "This Copilot does not let you choose when it asks like that, so nothing was sent. Choose another way."}
			}
			return err
		})
	}
	return nil
}

// ---- what is in force ----

// inForce are the settings that a session is known to have.
func (c *conn) inForce(id string) (now map[string]string) {
	c.alone(func() {
		if s := c.sessions[id]; s != nil {
			now = maps.Clone(s.config)
		}
	})
	return now
}

// reads has the answer to a call about a session shown at once.
func (c *conn) reads(ctx context.Context, method string, s *sdk.Session, f func(context.Context) error, show func(*agent, json.RawMessage) error) error {
	return c.callFor(ctx, method, s.SessionID, f, func(raw json.RawMessage) error {
		known := c.sessions[s.SessionID]
		if known == nil {
			return errLost
		}
		known.from = state.Source{}
		err := show(known.main, raw)
		known.flush(c.recording())
		return err
	})
}

func (c *conn) readMode(ctx context.Context, s *sdk.Session) error {
	return c.reads(ctx, "session.mode.get", s, func(ctx context.Context) error {
		_, err := s.RPC.Mode.Get(ctx)
		return err
	}, func(a *agent, raw json.RawMessage) error {
		var mode string
		err := json.Unmarshal(raw, &mode)
		a.configure(map[string]string{settingMode: mode})
		return err
	})
}

// currentModel is a model and how long it may think.
type currentModel struct {
	ID     string `json:"modelId"`
	Effort string `json:"reasoningEffort"`
}

func (c *conn) readModel(ctx context.Context, s *sdk.Session) error {
	return c.reads(ctx, "session.model.getCurrent", s, func(ctx context.Context) error {
		_, err := s.RPC.Model.GetCurrent(ctx)
		return err
	}, func(a *agent, raw json.RawMessage) error {
		var m currentModel
		err := json.Unmarshal(raw, &m)
		a.modelIs(m.ID)
		a.configure(map[string]string{settingEffort: m.Effort})
		return err
	})
}

func (c *conn) readPermissions(ctx context.Context, s *sdk.Session) error {
	return c.reads(ctx, "session.permissions.getMode", s, func(ctx context.Context) error {
		_, err := s.RPC.Permissions.GetMode(ctx)
		return err
	}, func(a *agent, raw json.RawMessage) error {
		var p struct {
			Mode string `json:"mode"`
		}
		err := json.Unmarshal(raw, &p)
		a.configure(map[string]string{settingPermissions: p.Mode})
		return err
	})
}
