package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestScrubCopilot(t *testing.T) {
	s := scrubber{paths: strings.NewReplacer("/tmp/x/me", "/home/me", "/tmp/x", "/home/me/tmp")}
	for in, want := range map[string]string{
		`{"z":1.0,"a":"/tmp/x/me/f","id":"7"}`: `{"z":1.0,"a":"/home/me/f","id":"7"}`,
		`"/tmp/x/me"`:                          `"/home/me"`,
		`{"event":{"type":"user.message","data":{"content":"hi","transformedContent":"now: hi"}}}`:                           `{"event":{"type":"user.message","data":{"content":"hi","transformedContent":"(cut)"}}}`,
		`{"input":{"prompt":"hi","transformedPrompt":"now: hi"}}`:                                                            `{"input":{"prompt":"hi","transformedPrompt":"(cut)"}}`,
		`{"event":{"type":"system.message","data":{"role":"system","content":"Be good.","contentBlocks":[{"content":""}]}}}`: `{"event":{"type":"system.message","data":{"role":"system","content":"(cut)","contentBlocks":[{"content":"(cut)"}]}}}`,
		`{"event":{"type":"session.mode_notice_delivered","data":{"mode":"plan","content":"Do."}}}`:                          `{"event":{"type":"session.mode_notice_delivered","data":{"mode":"plan","content":"(cut)"}}}`,
		`{"event":{"type":"session.skills_loaded","data":{"skills":[{"name":"a","description":"b"}]}}}`:                      `{"event":{"type":"session.skills_loaded","data":{"skills":[{"name":"a","description":"(cut)"}]}}}`,
		`{"event":{"type":"model.message","data":{"n":1,"message":{"content":["a",null]}},"id":"1"}}`:                        `{"event":{"type":"model.message","data":{"n":1,"message":{"content":["(cut)",null]}},"id":"1"}}`,
		`{"event":{"type":"model.call_start","data":{"model":"m"}}}`:                                                         `{"event":{"type":"model.call_start","data":{"model":"m"}}}`,
		`{"events":[{"type":"system.message","data":{"content":"a"}},{"type":"assistant.message","data":{"content":"b"}}]}`:  `{"events":[{"type":"system.message","data":{"content":"(cut)"}},{"type":"assistant.message","data":{"content":"b"}}]}`,
	} {
		if got, err := s.scrubCopilot([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v", in, got, err)
		}
	}
	if _, err := s.scrubCopilot([]byte(`{"a":`)); err == nil {
		t.Error("half a message was taken")
	}
}

// copilotForeign is what stands in no recording: other folders than the two, the
// name of a home, an instruction to the model.
var copilotForeign = regexp.MustCompile(`/tmp/|/root\b|/work\b|/home/[^m]|record-\d|You are (a|an|the|GitHub)\b|<current_datetime>|tool_calling|"(transformedContent|transformedPrompt)":"[^(]`)

// TestCopilotRecordings: there is one for each scenario, of the version that the
// tests run, whole, and nothing in it that names the machine or repeats what its
// maker tells the model.
func TestCopilotRecordings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", copilotRecordings, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(copilotScenarios) {
		t.Errorf("%d recordings of %d scenarios", len(files), len(copilotScenarios))
	}
	size := 0
	for _, s := range copilotScenarios {
		b, err := os.ReadFile(filepath.Join("..", "..", copilotRecordings, s.name+".rpc.jsonl"))
		if err != nil {
			t.Error(err)
			continue
		}
		if m := copilotForeign.FindIndex(b); m != nil {
			t.Errorf("%s says %.120q", s.name, b[max(0, m[0]-40):])
		}
		if !bytes.Contains(b, []byte(`"version":"1.0.102"`)) {
			t.Errorf("%s is not of 1.0.102", s.name)
		}
		asked, answered := map[string]bool{}, map[string]bool{}
		for line := range bytes.Lines(b) {
			var l struct {
				Dir string
				Msg struct {
					JSONRPC, Method string
					ID              json.RawMessage
				}
			}
			if err := json.Unmarshal(line, &l); err != nil || l.Dir != "start" && l.Msg.JSONRPC != "2.0" {
				t.Errorf("%s has the line %.100q: %v", s.name, line, err)
			}
			switch {
			case l.Dir == "c2s" && l.Msg.Method != "":
				asked[string(l.Msg.ID)] = true
			case l.Dir == "s2c" && l.Msg.Method == "":
				answered[string(l.Msg.ID)] = true
			}
		}
		for id := range asked {
			if !answered[id] {
				t.Errorf("%s has no answer to the call %s", s.name, id)
			}
		}
		size += len(b)
	}
	if size > 4<<20 {
		t.Errorf("the recordings have %d bytes, too many for a repository", size)
	}
}
