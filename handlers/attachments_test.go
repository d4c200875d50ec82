package handlers

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod/state"
)

// dot is the begin of an image, which tells what it is.
const dot = "\x89PNG\r\n\x1a\nand so on"

// upload posts a message with images, by their names.
func (s *site) upload(path string, fields url.Values, images ...string) reply {
	s.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, values := range fields {
		for _, v := range values {
			if err := w.WriteField(name, v); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	for i := 0; i+1 < len(images); i += 2 {
		f, err := w.CreateFormFile("images", images[i])
		if err == nil {
			_, err = io.WriteString(f, images[i+1])
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return s.do(s.in, http.MethodPost, path, nil, header("Content-Type", w.FormDataContentType()), header("Sec-Fetch-Site", "same-origin"), func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(&b), int64(b.Len())
	})
}

// TestAttachments go along with a message, are named on the page, and nothing else of
// them is.
func TestAttachments(t *testing.T) {
	s := newSite(t)
	id := s.session()
	path := "/s/" + id
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	if page := s.get(s.in, path).body; strings.Contains(page, `type="file"`) || strings.Contains(page, "multipart") {
		t.Errorf("an agent that takes none:\n%s", page)
	}
	if r := s.upload(path+"/messages", url.Values{"text": {"look"}}, "a.png", dot); r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, "takes no files") {
		t.Errorf("not offered: %d", r.status)
	}
	s.offer(state.Offers{Attaches: true})
	if page := s.get(s.in, path).body; !strings.Contains(page, `type="file"`) || !strings.Contains(page, `enctype="multipart/form-data"`) {
		t.Errorf("not on the page:\n%s", page)
	}
	v, err := s.hub.Session(id)
	if err != nil {
		t.Fatal(err)
	}
	folder := state.FilePath(*v.State.Summary.WorkingDirectory)
	for _, name := range []string{"notes.txt", "other.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("12345"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fields := url.Values{"text": {"look"}, "paths": {"notes.txt\r\n\r\n" + filepath.Join(folder, "other.txt")}}
	if r := s.upload(path+"/messages", fields, "<b>dot.png", dot); r.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", r.status, r.body)
	}
	if v, err = s.hub.Session(id); err != nil {
		t.Fatal(err)
	}
	got := v.State.ActiveTurn.Message.Attachments
	if len(got) != 3 || *got[0].URI != state.FileURI(filepath.Join(folder, "notes.txt")) || *got[0].SizeHint != 5 || got[1].Label != "other.txt" || *got[2].ContentType != "image/png" || *got[2].Data != "iVBORw0KGgphbmQgc28gb24=" {
		t.Errorf("the agent got %+v", got)
	}
	page := s.get(s.in, path).body
	for _, want := range []string{"notes.txt</bdi> <span class=\"soft\">5 bytes", "&lt;b&gt;dot.png</bdi> <span class=\"soft\">17 bytes"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "iVBORw0") {
		t.Error("the page holds the image")
	}
}

// TestWrongAttachments are said, and nothing is sent; what was typed is kept.
func TestWrongAttachments(t *testing.T) {
	s := newSite(t)
	s.offer(state.Offers{Attaches: true})
	id := s.session()
	path := "/s/" + id
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	for name, c := range map[string]struct {
		paths  string
		images []string
		says   string
	}{
		"no such file":   {"/no/such/file", nil, "There is no such file."},
		"a folder":       {t.TempDir(), nil, "That is no file."},
		"a device":       {"/dev/zero", nil, "That is no file."},
		"no image":       {"", []string{"a.png", "<script>alert(1)</script>"}, "is no PNG"},
		"an SVG":         {"", []string{"a.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"}, "is no PNG"},
		"too many":       {"a\nb\nc\nd", []string{"a.png", dot, "b.png", dot}, "Up to 5 files"},
		"large together": {"", []string{"a.png", dot + strings.Repeat("a", maxImages/2), "b.png", dot + strings.Repeat("b", maxImages/2)}, "up to 10 MB together"},
	} {
		r := s.upload(path+"/messages", url.Values{"text": {"my draft"}, "paths": {c.paths}}, c.images...)
		if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, c.says) || !strings.Contains(r.body, ">my draft</textarea>") || c.paths != "" && !strings.Contains(r.body, c.paths+"</textarea>") {
			t.Errorf("%s: %d\n%s", name, r.status, r.body)
		}
	}
	if r := s.upload(path+"/messages", url.Values{"text": {"x"}}, "a.png", dot+strings.Repeat("a", maxImages+3*maxText)); r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.body, "10 MB together") {
		t.Errorf("far too large: %d\n%s", r.status, r.body)
	}
	if r := s.upload(path+"/messages", url.Values{"text": {strings.Repeat("a", maxText+1)}}); r.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long text: %d", r.status)
	}
	for _, other := range []string{"/new", path + "/stop", path + "/rename"} {
		if r := s.upload(other, url.Values{"text": {"x"}}); r.status != http.StatusUnsupportedMediaType {
			t.Errorf("an upload to %s: %d", other, r.status)
		}
	}
	if v, err := s.hub.Session(id); err != nil || v.State.ActiveTurn != nil {
		t.Errorf("something was sent: %v", err)
	}
}

// TestAttachmentsBelowABasePath go along, too.
func TestAttachmentsBelowABasePath(t *testing.T) {
	s := newSite(t, func(c *Config) { c.BasePath = "/nod" })
	id := s.session()
	s.apply(id, &state.SessionTurnComplete{TurnID: "t"})
	s.offer(state.Offers{Attaches: true})
	if r := s.upload("/nod/s/"+id+"/messages", url.Values{"text": {"look"}}, "a.png", dot); r.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", r.status, r.body)
	}
}

// TestImagesAreChosenAgain: a page cannot hold them, so it says so whatever else is wrong.
func TestImagesAreChosenAgain(t *testing.T) {
	s := newSite(t)
	s.offer(state.Offers{Attaches: true})
	path := "/s/" + s.session()
	for name, fields := range map[string]url.Values{"a turn runs": {"text": {"look"}}, "no text": {"text": {" "}}, "no such file": {"text": {"look"}, "paths": {"/no/such/file"}}} {
		if r := s.upload(path+"/messages", fields, "a.png", dot); r.status < 400 || strings.Count(r.body, "Choose the images again") != 1 {
			t.Errorf("%s: %d\n%s", name, r.status, r.body)
		}
		if r := s.upload(path+"/messages", fields); r.status < 400 || strings.Contains(r.body, "Choose the images again") {
			t.Errorf("%s, without any: %d\n%s", name, r.status, r.body)
		}
	}
}
