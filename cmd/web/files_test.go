package main

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nod/state/journal"
)

// TestR42ChangedFile: somebody changes an entry of the record while nod does not run.
// “nod audit check” fails and names it, and so does the first page.
func TestR42ChangedFile(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no agents
	data, config := filepath.Join(t.TempDir(), "data"), write(t, "")
	args := []string{"--listen", "127.0.0.1:0", "--data", data, "--config", config}
	r, port, token := startNod(t, args...)
	c := loggedIn(t, port, token)
	if status, _ := visit(t, c, http.MethodPost, "http://127.0.0.1:"+port+"/logout", url.Values{}); status != http.StatusSeeOther {
		t.Fatalf("%d", status)
	}
	r.stop(t)
	check := func() (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), []string{"audit", "check", "--data", data, "--config", config}, &out, io.Discard)
		return out.String(), err
	}
	if out, err := check(); err != nil || !strings.Contains(out, "2 entries are as nod wrote them") {
		t.Fatalf("before: %s %v", out, err)
	}
	db, err := sql.Open("sqlite", filepath.Join(data, journal.FileName))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{"DROP TRIGGER audit_update", "UPDATE audit SET address = '192.0.2.1' WHERE id = 1"} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(err.Error(), "entry 1 is not") || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	r, port, token = startNod(t, args...)
	defer r.stop(t)
	c = loggedIn(t, port, token)
	for range 1000 {
		res, err := c.Get("http://127.0.0.1:" + port + "/")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(page), "nod audit check") {
			return
		}
	}
	t.Error("the first page does not tell")
}

// TestR23OtherOwner: nod does not start on a folder of somebody else.
func TestR23OtherOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a folder away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(dir); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("got %v", err)
	}
}

// TestR23NoFileForOthers: whatever the mask that nod is started with, nobody else can
// read a file that it makes: not the journal and what SQLite keeps beside it, not a
// backup, not what was there before a restore.
func TestR23NoFileForOthers(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	t.Setenv("PATH", t.TempDir()) // no agents
	dir, config := t.TempDir(), write(t, "")
	data, copied := filepath.Join(dir, "data"), filepath.Join(dir, "copy")
	args := []string{"--data", data, "--config", config}
	command := func(words ...string) {
		t.Helper()
		if err := run(t.Context(), append(words, args...), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	r, port, token := startNod(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	loggedIn(t, port, token)
	command("backup", copied)
	names := onlyOurs(t, dir)
	for _, want := range []string{journal.FileName, journal.FileName + "-wal", journal.FileName + "-shm", lockName, "copy"} {
		if !names[want] {
			t.Errorf("there is no %s, but %v", want, names)
		}
	}
	r.stop(t)
	command("restore", copied)
	onlyOurs(t, dir)
}

// onlyOurs looks at the modes of all that is in a folder, and returns their names.
func onlyOurs(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		names[d.Name()] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestR23Misplaced: a data folder that is copied to other machines, or lies on one, is told
// of; one that is here is not.
func TestR23Misplaced(t *testing.T) {
	here := t.TempDir()
	for dir, bad := range map[string]bool{
		here: false, "/home/ada/.local/share/nod": false, "/home/ada/dropboxes/nod": false,
		"/home/ada/Dropbox/nod": true, "/Users/ada/Library/Mobile Documents/nod": true, "/Users/ada/Library/CloudStorage/x/nod": true, "/home/ada/OneDrive - Work/nod": true,
	} {
		if why := misplaced(dir); (why != "") != bad {
			t.Errorf("%s: %q", dir, why)
		}
	}
	for kind, bad := range map[string]bool{"nfs": true, "nfs4": true, "smb2": true, "cifs": true, "9p": true, "ext2/ext3": false, "tmpfs": false, "btrfs": false, "apfs": false, "overlayfs": false} {
		if overNetwork.MatchString(kind) != bad {
			t.Errorf("%s is taken for the wrong kind", kind)
		}
	}
	link := filepath.Join(here, "link")
	synced := filepath.Join(here, "Nextcloud", "nod")
	if err := errors.Join(os.MkdirAll(synced, 0o700), os.Symlink(synced, link)); err != nil {
		t.Fatal(err)
	}
	if misplaced(link) == "" {
		t.Error("a link into such a folder is taken for a good place")
	}
}
