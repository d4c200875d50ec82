package copilot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/github/copilot-sdk/go"
	"github.com/github/copilot-sdk/go/rpc"

	"nod/agentconn/forms"
	"nod/agentconn/plain"
	"nod/state"
)

// answerOption is the only option of a plain question.
const answerOption = "answer"

// ---- a question of the model ----

type question struct {
	Question      string   `json:"question"`
	Choices       []string `json:"choices"`
	AllowFreeform *bool    `json:"allowFreeform"` // nil: yes
}

func askQuestion(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[question](r)
	if !ok || p.Question == "" {
		return false
	}
	q := state.Question{ID: answerOption, Kind: "text", Message: p.Question, Required: new(true)}
	for _, c := range p.Choices {
		if !slices.ContainsFunc(q.Options, func(o state.QuestionOption) bool { return o.ID == c }) {
			q.Options = append(q.Options, state.QuestionOption{ID: c, Label: c})
		}
	}
	if len(q.Options) > 0 {
		q.Kind, q.AllowFreeformInput = "single-select", new(p.AllowFreeform == nil || *p.AllowFreeform)
	}
	r.Kind, r.Title, r.Questions = state.RequestQuestion, "Copilot has a question", &state.InputRequest{Questions: []state.Question{q}}
	r.Caution = caution(r.Params, "requestId", "toolCallId", "question", "choices", "allowFreeform")
	r.Options = []state.ConfirmationOption{{ID: answerOption, Label: "Answer", Kind: state.OptionApprove}}
	a.askFree(ctx, r)
	return true
}

// answerQuestion gives one answer: what was chosen, and below it what was typed.
func answerQuestion(ctx context.Context, s *sdk.Session, id string, _ state.Request, d state.Decision) error {
	given := d.Answers[answerOption].Given()
	if len(given) == 0 {
		return fmt.Errorf("copilot: %s has no answer", id)
	}
	_, err := s.RPC.UI.HandlePendingUserInput(ctx, &rpc.UIHandlePendingUserInputRequest{RequestID: id, Response: rpc.UIUserInputResponse{
		Answer: strings.Join(given, "\n"), WasFreeform: d.Answers[answerOption].Text != "",
	}})
	return err
}

// ---- a form ----

type elicitation struct {
	Source  string          `json:"elicitationSource"` // an MCP server; "" for the agent
	Message string          `json:"message"`
	Mode    string          `json:"mode"`
	Schema  json.RawMessage `json:"requestedSchema"`
	URL     string          `json:"url"`
}

func askElicitation(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[elicitation](r)
	if !ok {
		return false
	}
	r.Kind, r.Title, r.Questions = state.RequestQuestion, "Copilot asks you to fill in a form", &state.InputRequest{Message: state.Optional(p.Message)}
	if p.Source != "" {
		r.Title = "The server “" + p.Source + "” asks"
	}
	r.Options = []state.ConfirmationOption{
		{ID: "accept", Label: "Answer", Kind: state.OptionApprove},
		{ID: "decline", Label: "Decline", Kind: state.OptionDeny},
		{ID: "cancel", Label: "Cancel", Kind: state.OptionDeny, Group: new(state.ForSession)},
	}
	r.Caution = caution(r.Params, "requestId", "toolCallId", "elicitationSource", "message", "mode", "requestedSchema", "url", "elicitationId")
	switch p.Mode {
	case "", "form":
		questions, ok := forms.Questions(p.Schema)
		if r.Questions.Questions = questions; !ok {
			r.Caution = cannotShow("requestedSchema")
		}
	case "url":
		r.Options[0].Label = "I have done it"
		if r.Questions.URL = &p.URL; !state.WebAddress(p.URL) {
			r.Questions.URL = nil
			r.Caution = "nod opens only addresses that begin with http:// or https://, so this can only be refused here. The whole request stands here."
		}
	default:
		r.Caution = cannotShow("mode: " + p.Mode)
	}
	a.askFree(ctx, r)
	return true
}

func answerElicitation(ctx context.Context, s *sdk.Session, id string, r state.Request, d state.Decision) error {
	result := rpc.UIElicitationResponse{Action: rpc.UIElicitationResponseAction(d.OptionID)}
	if d.OptionID == "accept" && r.Questions.URL == nil {
		result.Content = rpc.UIElicitationResponseContent{}
		for _, q := range r.Questions.Questions {
			v, ok := q.JSON(d.Answers[q.ID])
			if !ok {
				continue
			}
			value, err := fieldValue(q.Kind, v)
			if err != nil {
				return err
			}
			result.Content[q.ID] = value
		}
	}
	_, err := s.RPC.UI.HandlePendingElicitation(ctx, &rpc.UIHandlePendingElicitationRequest{RequestID: id, Result: result})
	return err
}

// fieldValue is an answer to a field as the SDK wants it.
func fieldValue(kind string, raw []byte) (rpc.UIElicitationFieldValue, error) {
	switch kind {
	case "boolean":
		return decoded[rpc.UIElicitationBooleanValue](raw)
	case "number", "integer":
		return decoded[rpc.UIElicitationNumberValue](raw)
	case "multi-select":
		return decoded[rpc.UIElicitationStringArrayValue](raw)
	}
	return decoded[rpc.UIElicitationStringValue](raw)
}

func decoded[V rpc.UIElicitationFieldValue](raw []byte) (rpc.UIElicitationFieldValue, error) {
	var v V
	err := json.Unmarshal(raw, &v)
	return v, err
}

// ---- a plan ----

type plan struct {
	Summary     string   `json:"summary"`
	PlanContent string   `json:"planContent"`
	Actions     []string `json:"actions"`
	Recommended string   `json:"recommendedAction"`
}

// planOptions are what may follow a plan. In autopilot Copilot goes on without a
// person, so that is asked for a second time, and takes a proof; that edits are approved by themselves,
// as a terminal adds, is not asked for.
var planOptions = []state.ConfirmationOption{
	{ID: "interactive", Label: "Approve the plan, and begin", Kind: state.OptionApprove},
	{ID: "autopilot", Label: "Approve the plan, and carry it out on autopilot", Kind: state.OptionApprove, Group: new(state.Unattended)},
	{ID: "autopilot_fleet", Label: "Approve the plan, and carry it out on autopilot with sub-agents side by side", Kind: state.OptionApprove, Group: new(state.Unattended)},
	{ID: "exit_only", Label: "Leave plan mode, and begin nothing", Kind: state.OptionApprove},
}

func askPlan(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[plan](r)
	if !ok || p.Summary == "" && p.PlanContent == "" {
		return false
	}
	r.Kind, r.Title, r.Explains = state.RequestQuestion, "Is this plan good?", "reject"
	r.Caution = caution(r.Params, "requestId", "toolCallId", "summary", "planContent", "actions", "recommendedAction", "model")
	if p.Summary != "" {
		r.Details = append(r.Details, state.Detail{Label: "In short", Text: p.Summary})
	}
	if p.PlanContent != "" {
		r.Details = append(r.Details, state.Detail{Label: "The plan", Text: p.PlanContent})
	}
	for _, id := range p.Actions {
		i := slices.IndexFunc(planOptions, func(o state.ConfirmationOption) bool { return o.ID == id })
		if i < 0 { // nobody knows what it does
			continue
		}
		o := planOptions[i]
		if id == p.Recommended {
			o.Label += " (recommended)"
		}
		r.Options = append(r.Options, o)
	}
	r.Options = append(r.Options, state.ConfirmationOption{ID: "reject", Label: "Not yet: go on planning", Kind: state.OptionDeny})
	a.askFree(ctx, r)
	return true
}

func answerPlan(ctx context.Context, s *sdk.Session, id string, _ state.Request, d state.Decision) error {
	response := rpc.UIExitPlanModeResponse{Feedback: state.Optional(d.Reason)}
	if d.OptionID != "reject" {
		response = rpc.UIExitPlanModeResponse{Approved: true, SelectedAction: new(rpc.UIExitPlanModeAction(d.OptionID))}
	}
	_, err := s.RPC.UI.HandlePendingExitPlanMode(ctx, &rpc.UIHandlePendingExitPlanModeRequest{RequestID: id, Response: response})
	return err
}

// ---- limits ----

type modeSwitch struct {
	ErrorCode  string `json:"errorCode"`
	RetryAfter *int64 `json:"retryAfterSeconds"`
}

// askSwitch: the model's limit is reached, and Copilot could choose another one.
func askSwitch(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[modeSwitch](r)
	if !ok {
		return false
	}
	r.Kind, r.Title = state.RequestQuestion, "Go on with a model that Copilot chooses?"
	r.Questions = &state.InputRequest{Message: new("The limit of the session's model is reached.")}
	r.Caution = caution(r.Params, "requestId", "errorCode", "retryAfterSeconds")
	if p.ErrorCode != "" {
		r.Details = append(r.Details, state.Detail{Label: "Copilot reports", Text: p.ErrorCode})
	}
	if p.RetryAfter != nil {
		r.Details = append(r.Details, state.Detail{Label: "The limit ends in", Text: strconv.FormatInt(*p.RetryAfter, 10) + " s"})
	}
	r.Options = []state.ConfirmationOption{
		{ID: "yes", Label: "Go on with another model for this turn", Kind: state.OptionApprove},
		{ID: "yes_always", Label: "Always do so when a limit is reached (permanent setting)", Kind: state.OptionApprove, Group: new(state.ForGood)},
		{ID: "no", Label: "Do not switch", Kind: state.OptionDeny},
	}
	a.askFree(ctx, r)
	return true
}

func answerSwitch(ctx context.Context, s *sdk.Session, id string, _ state.Request, d state.Decision) error {
	_, err := s.RPC.UI.HandlePendingAutoModeSwitch(ctx, &rpc.UIHandlePendingAutoModeSwitchRequest{RequestID: id, Response: rpc.UIAutoModeSwitchResponse(d.OptionID)})
	return err
}

type limits struct {
	Max  json.Number `json:"maxAiCredits"`
	Used json.Number `json:"usedAiCredits"`
}

// credits is the question how many.
const credits = "credits"

// askLimits: the credits that the session may use are used up. The number that two of
// the answers need is there from the start, so that the others need none.
func askLimits(ctx context.Context, a *agent, r state.Request) bool {
	p, ok := read[limits](r)
	if !ok || p.Max == "" {
		return false
	}
	r.Kind, r.Title = state.RequestQuestion, "The session's AI credits are used up"
	r.Caution = caution(r.Params, "requestId", "maxAiCredits", "usedAiCredits")
	r.Details = []state.Detail{{Label: "Used", Text: cmp.Or(p.Used.String(), "it does not say") + " of " + p.Max.String()}}
	r.Questions = &state.InputRequest{Questions: []state.Question{{
		ID: credits, Kind: "number", Message: "How many credits to add, or to allow in all", Required: new(true), Min: []byte("0"), DefaultValue: []byte(p.Max),
	}}}
	r.Options = []state.ConfirmationOption{
		{ID: "add", Label: "Add that many", Kind: state.OptionApprove},
		{ID: "set", Label: "Allow that many in all", Kind: state.OptionApprove},
		{ID: "unset", Label: "Remove the limit", Kind: state.OptionApprove, Group: new(state.ForSession)},
		{ID: "cancel", Label: "Leave the limit, and stop here", Kind: state.OptionDeny},
	}
	a.askFree(ctx, r)
	return true
}

func answerLimits(ctx context.Context, s *sdk.Session, id string, _ state.Request, d state.Decision) error {
	response := rpc.UISessionLimitsExhaustedResponse{Action: rpc.UISessionLimitsExhaustedResponseAction(d.OptionID)}
	if d.OptionID == "add" || d.OptionID == "set" {
		n, err := strconv.ParseFloat(d.Answers[credits].Text, 64)
		if err != nil {
			return fmt.Errorf("copilot: %s has no number: %w", plain.Shorten(id, 80), err)
		}
		if d.OptionID == "add" {
			response.AdditionalAiCredits = &n
		} else {
			response.MaxAiCredits = &n
		}
	}
	_, err := s.RPC.UI.HandlePendingSessionLimitsExhausted(ctx, &rpc.UIHandlePendingSessionLimitsExhaustedRequest{RequestID: id, Response: response})
	return err
}
