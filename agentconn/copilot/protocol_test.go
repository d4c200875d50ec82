package copilot

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"nod/agentconn/agenttest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// beyond are the events that only CLI 1.0.102 knows: neither the pinned schema nor
// the SDK has them.
var beyond = []string{
	"human_response.recorded", "mcp.oauth_recovery_completed", "model.call_final_result", "session.autopilot_stopped",
	"session.fusion_change_checkpoint", "session.fusion_commit_started", "session.fusion_handoff", "session.indexed_search",
	"session.managed_plugin_progress", "session.mcp_server_tools_loaded", "session.memory_changed", "session.model_deselected",
	"session.permission_recovery", "session.quota_observation", "session.request_body_compression_disabled", "session.usage_record",
	"tool.shell_output", "workflow.run_started", "workflow.run_updated", "workflow.run_settled",
}

// nowhere are what the CLI says in no schema: what its model layer tells itself.
var nowhere = []string{
	"model.log", "model.message", "model.messages_snapshot", "model.model_call_started", "model.model_call_success", "model.model_call_failure",
	"model.response", "model.telemetry", "model.tool_execution", "model.turn_started", "model.turn_ended", "model.turn_retry", "model.turn_failed",
}

// pinned returns the events of the pinned schema; none where it is not at hand.
func pinned(t *testing.T) (out []string) {
	t.Helper()
	b, err := os.ReadFile(agenttest.Shared("schemas", "copilot-session-events.schema.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("the pinned schema is not here; NOD_SHARED may name the folder that holds it")
		return nil
	}
	var schema struct {
		Definitions map[string]struct {
			AnyOf []struct {
				Ref string `json:"$ref"`
			} `json:"anyOf"`
			Properties struct {
				Type struct{ Const string }
			}
		}
	}
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	for _, x := range schema.Definitions["SessionEvent"].AnyOf {
		out = append(out, schema.Definitions[strings.TrimPrefix(x.Ref, "#/definitions/")].Properties.Type.Const)
	}
	return out
}

// sdkEvents returns the events that the SDK has constants for.
func sdkEvents(t *testing.T) (out []string) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/github/copilot-sdk/go/rpc").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "zsession_events.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		typ, ok := v.Type.(*ast.Ident)
		lit, is := v.Values[0].(*ast.BasicLit)
		if ok && is && typ.Name == "SessionEventType" {
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, name)
		}
		return true
	})
	return out
}

// TestEverythingIsClassified walks what the pinned schema, the SDK and the CLI can
// say: what nobody has thought of is found here, and not by a person who misses it.
// What is classified is said by one of them.
func TestEverythingIsClassified(t *testing.T) {
	said := map[string]bool{}
	schema := pinned(t)
	for _, list := range []struct {
		who    string
		events []string
		least  int
	}{{"the pinned schema", schema, 116}, {"the SDK", sdkEvents(t), 146}, {"the CLI", beyond, 20}} {
		if len(list.events) < list.least && (schema != nil || list.who != "the pinned schema") {
			t.Errorf("%s knows only %d events", list.who, len(list.events))
		}
		for _, name := range list.events {
			said[name] = true
			if (handlers[name] != nil) == (ignored[name] != "") {
				t.Errorf("%s says %s, which is neither handled nor ignored for a reason, or both", list.who, name)
			}
		}
	}
	for _, name := range nowhere {
		if !(event{Type: name}).barred() || handlers[name] != nil || ignored[name] != "" {
			t.Errorf("%s is not dropped at the door", name)
		}
	}
	if schema == nil {
		return
	}
	for name := range handlers {
		if !said[name] {
			t.Errorf("nobody says %s", name)
		}
	}
	for name := range ignored {
		if !said[name] {
			t.Errorf("nobody says %s", name)
		}
	}
}
