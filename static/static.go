// Package static holds the files that a browser loads beside the pages.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
)

// FS holds the files by name. live.min.js is live.js without its comments.
//
//go:embed *.css live.min.js login.js passkey.js *.svg
var FS embed.FS

// Version names the content of all files: it changes when one of them does.
var Version = version()

func version() string {
	h := sha256.New()
	names, err := fs.Glob(FS, "*")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, n := range names {
		b, err := FS.ReadFile(n)
		if err != nil {
			panic(err) // it was embedded
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
