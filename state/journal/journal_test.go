package journal_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"nod/state/journal"
	"nod/state/journal/journaltest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestSQLite holds the implementation to what every Store must do. Open is what
// the server calls.
func TestSQLite(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, folder string) journal.Store {
		s, err := journal.Open(t.Context(), folder, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
