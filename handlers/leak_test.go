package handlers

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestR1NothingIsToldOfAnApproval: a stranger does not learn whether there is one, nor
// of which session.
func TestR1NothingIsToldOfAnApproval(t *testing.T) {
	s := newSite(t)
	id := s.session()
	a := s.ask(id)
	there := s.post(s.out, "/approvals/"+a.ID, url.Values{})
	none := s.post(s.out, "/approvals/"+strings.Repeat("A", len(a.ID)), url.Values{})
	if there.status != http.StatusUnauthorized || none.status != there.status || strings.Contains(there.body, id) || len(there.body) != len(none.body) {
		t.Errorf("%d and %d:\n%s", there.status, none.status, there.body)
	}
}
