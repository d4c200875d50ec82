// Package copilot links nod to the GitHub Copilot CLI through its official SDK
// (protocol 3; tested with CLI 1.0.102 and SDK 1.0.14).
package copilot

import copilot "github.com/github/copilot-sdk/go"

// Provider is the key of the sessions of this machine's Copilot.
const Provider = "copilot"

var _ = copilot.NewClient
