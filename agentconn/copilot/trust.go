package copilot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// trusted reports whether a person has told Copilot, in a terminal, to trust a folder
// or one above it for good. Copilot asks that in terminals alone: over the protocol it
// would run the hooks of any folder at once, and start what its files name.
func trusted(folder string) bool {
	raw, err := os.ReadFile(filepath.Join(home(), "config.json"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(raw), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "//") })
	var config struct {
		TrustedFolders []string `json:"trustedFolders"`
	}
	if json.Unmarshal([]byte(strings.Join(lines, "\n")), &config) != nil {
		return false
	}
	return slices.ContainsFunc(config.TrustedFolders, func(t string) bool {
		below, err := filepath.Rel(t, folder)
		return err == nil && filepath.IsAbs(t) && filepath.IsLocal(below)
	})
}
