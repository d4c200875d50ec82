// Package state holds the Agent Host Protocol's state: its types, its actions,
// and the reducers that lead from one state to the next.
//
// Types and names are those of the protocol's schema, version 0.3.0-dev. What
// nod knows and AHP has no word for (a pending request, a link) is in
// request.go. The package does no I/O, reads no clock, and imports nothing else
// of this module.
package state
