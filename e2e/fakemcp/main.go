// Command fakemcp is an MCP server on stdin and stdout that asks: its tools ask
// for a form with a property of every kind, ask to open a page, tell how far
// they are, or want to be approved first. With it the real Codex has something
// to pass on.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fakemcp:", err)
		os.Exit(1)
	}
}
