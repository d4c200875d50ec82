// Package crashpoint names the moments at which a crash would hurt most, so that
// e2e can have nod die there. A program built without the tag crashpoint contains
// nothing of it.
package crashpoint

// The moments, in the order in which a decision meets them.
const (
	BeforeCommit = "before-commit" // a group is written, its transaction is open
	AfterCommit  = "after-commit"  // it is on disk, and nobody knows yet
	BeforeWrite  = "before-write"  // a decision is on disk as sent, its bytes are not out
	AfterWrite   = "after-write"   // they are, and the person has no answer yet
	BeforeAck    = "before-ack"    // the agent has confirmed, which is not on disk
	AfterAck     = "after-ack"     // it is
)

// Labels are all of them.
var Labels = []string{BeforeCommit, AfterCommit, BeforeWrite, AfterWrite, BeforeAck, AfterAck}

// Env is the variable that chooses one: "label:n" is the n-th time at that label, and
// "label:n:file" the n-th time while there is that file.
const Env = "NOD_CRASH"
