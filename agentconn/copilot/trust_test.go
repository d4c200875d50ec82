package copilot

import (
	"os"
	"path/filepath"
	"testing"

	"nod/state"
)

// TestTrusted: the hooks and servers of a folder are off unless a person has told
// Copilot to trust it.
func TestTrusted(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COPILOT_HOME", dir)
	on := func(folder string) bool {
		new, old := Config{}.create(state.NewSession{Folder: folder}), Config{}.join(false, folder)
		if *new.EnableFileHooks != *new.EnableConfigDiscovery || *old.EnableFileHooks != *old.EnableConfigDiscovery || *new.EnableFileHooks != *old.EnableFileHooks {
			t.Errorf("%s: they do not agree", folder)
		}
		return *new.EnableFileHooks
	}
	if on("/w/a") {
		t.Error("without a configuration")
	}
	for config, want := range map[string]map[string]bool{
		"// a remark\n{\"trustedFolders\": [\"/w/a\", \"relative\"]}\n": {"/w/a": true, "/w/a/b": true, "/w": false, "/w/ab": false, "/w/a/../b": false, "/": false, "relative": false},
		`{"trustedFolders": "/w/a"}`:                                    {"/w/a": false},
		`{"trustedFolders": ["/w/a"`:                                    {"/w/a": false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		for folder, is := range want {
			if on(folder) != is {
				t.Errorf("%s: %s is trusted: %v", config, folder, !is)
			}
		}
	}
}
