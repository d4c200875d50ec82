package state

// Whole names a text of which a session's state has only the begin.
type Whole struct {
	Event uint64 `json:"event"` // the number of the action that it came with
	Text  int    `json:"text"`  // which of the long texts in it, counted from 0
	Bytes int    `json:"bytes"` // how long it is
	Sum   string `json:"sum"`   // its SHA-256, hex
}

// WholeKey is the key of a Whole in the _meta of the note that leads to it.
const WholeKey = "nod.whole"
