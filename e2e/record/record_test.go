package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	s := scrubber{host: "box", paths: strings.NewReplacer("/tmp/x/me", "/home/me", "/tmp/x", "/home/me/tmp")}
	for in, want := range map[string]string{
		`{"z":1.0,"a":"/tmp/x/me/f","id":"7"}`:                              `{"z":1.0,"a":"/home/me/f","id":"7"}`,
		`{"id":9007199254740993,"o":[{"k":null},"in /tmp/x/w"]}`:            `{"id":9007199254740993,"o":[{"k":null},"in /home/me/tmp/w"]}`,
		`{"developerInstructions":"Be good.","developer_instructions":"x"}`: `{"developerInstructions":"","developer_instructions":""}`,
		`{"developerInstructions":null}`:                                    `{"developerInstructions":null}`,
		`{"baseInstructions":"x","next":"developerInstructions"}`:           `{"baseInstructions":"","next":"developerInstructions"}`,
		`{"serverName":"box","installationId":"abc"}`:                       `{"serverName":"host","installationId":"00000000-0000-4000-8000-000000000000"}`,
		`{"serverName":"fakemcp","name":"box"}`:                             `{"serverName":"fakemcp","name":"box"}`,
		`{"userAgent":"nod/1.2 (Linux 5; x) xterm"}`:                        `{"userAgent":"nod/1.2 (Linux; x86_64)"}`,
	} {
		if got, err := s.scrub([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v", in, got, err)
		}
	}
	if _, err := s.scrub([]byte(`{"a":`)); err == nil {
		t.Error("half a message was taken")
	}
}

// foreign is what stands in no recording: other folders than the two, the name
// of a home, an instruction to the model.
var foreign = regexp.MustCompile(`/tmp/|/root\b|/work\b|/home/[^m]|record-\d|[iI]nstructions":"[^"s]|You are (a|an|Codex)\b`)

// TestRecordings: there is one for each scenario, and nothing in it that names
// the machine or repeats what its maker tells the model.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", recordings, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(scenarios) {
		t.Errorf("%d recordings of %d scenarios", len(files), len(scenarios))
	}
	size := 0
	for _, s := range scenarios {
		b, err := os.ReadFile(filepath.Join("..", "..", recordings, s.name+".jsonl"))
		if err != nil {
			t.Error(err)
			continue
		}
		if m := foreign.FindIndex(b); m != nil {
			t.Errorf("%s says %.80q", s.name, b[max(0, m[0]-20):])
		}
		if version := "nod/0.171.0 "; !strings.Contains(string(b), version) && !s.old {
			t.Errorf("%s is not of %s", s.name, version)
		}
		if version := "nod/0.122.0 "; !strings.Contains(string(b), version) && s.old {
			t.Errorf("%s is not of %s", s.name, version)
		}
		size += len(b)
	}
	if size > 1<<20 {
		t.Errorf("the recordings have %d bytes, too many for a repository", size)
	}
}
