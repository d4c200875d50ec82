package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Restore puts a backup in the place of the journal in a folder that nobody uses.
// What was there is moved aside, all of its files: SQLite would play the log of
// the old file into the new one. It returns the folder that holds them, "" if
// there were none. A file that is no good journal is refused, and nothing changed.
func Restore(ctx context.Context, folder, backup string) (aside string, err error) {
	if backup, err = filepath.Abs(backup); err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	if _, err := os.Stat(backup); err != nil {
		return "", err
	}
	target := filepath.Join(folder, FileName)
	part := target + ".part"
	if err := copyFile(backup, part); err != nil {
		return "", errors.Join(err, os.Remove(part))
	}
	defer func() { _ = os.Remove(part) }() // it has its name by then, or is of no use
	switch version, err := inspect(ctx, part); {
	case err != nil:
		return "", fmt.Errorf("%s cannot be restored: %w", backup, err)
	case version == 0:
		return "", fmt.Errorf("%s is empty, so it was not restored", backup)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if _, err := os.Stat(target + suffix); errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return aside, err
		}
		if aside == "" {
			if aside, err = os.MkdirTemp(folder, "before-restore-"); err != nil {
				return "", err
			}
		}
		if err := os.Rename(target+suffix, filepath.Join(aside, FileName+suffix)); err != nil {
			return aside, err
		}
	}
	if err := os.Rename(part, target); err != nil {
		return aside, err
	}
	return aside, syncFile(folder)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}
