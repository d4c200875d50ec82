package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/shirou/gopsutil/v4/disk"
)

// openData makes the data folder ours alone and locks it. The lock ends with
// the process.
func openData(dir string) (lock *os.File, err error) {
	if err := checkData(dir, true); err != nil {
		return nil, err
	}
	lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data folder %s cannot be used: %w", dir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another nod is using the data folder %s; use that one, end it, or name another folder with --data", dir)
	}
	return lock, nil
}

// noteAddress writes where a browser finds nod into its lock, for nod login-url.
func noteAddress(lock *os.File, address string) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(address), 0)
	return err
}

// runningAddress returns where a browser finds the nod of a data folder.
func runningAddress(dir string) (string, error) {
	lock, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return "", fmt.Errorf("there is no nod in %s yet; start nod first", dir)
	}
	defer func() { _ = lock.Close() }()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return "", fmt.Errorf("no nod is running on %s; start nod first, it prints a link", dir)
	}
	b, err := io.ReadAll(lock)
	return string(b), err
}

// lockName is the file in the data folder that a running nod holds locked.
const lockName = "lock"

// checkData refuses a folder that others own or can write to, and closes one
// that others can read. Nothing that is created from here on can be read by others.
func checkData(dir string, create bool) error {
	syscall.Umask(0o077)
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the data folder %s cannot be made: %w", dir, err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("there is no data folder %s; start nod first", dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("the data folder %s belongs to another user; name one of your own with --data", dir)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others may write to the data folder %s; look who did, then: chmod 700 %s", dir, dir)
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// Where a database does not belong: file systems over a network lock badly, and what
// copies a folder to other machines copies half of a file.
var (
	overNetwork = regexp.MustCompile(`(?i)^(?:nfs|smb|cifs|afp|webdav|9p|afs|ceph|ncp|coda|gluster|lustre)`)
	copied      = regexp.MustCompile(`(?i)/(?:dropbox|onedrive[^/]*|google ?drive|icloud[^/]*|mobile documents|cloudstorage|nextcloud|owncloud|pcloud[^/]*)/`)
)

// misplaced tells what is wrong with the place of a data folder, "" for nothing that
// can be told.
func misplaced(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if u, err := disk.Usage(dir); err == nil && overNetwork.MatchString(u.Fstype) {
		return "it lies on another machine (" + u.Fstype + "), where a database may be damaged and others may read it"
	}
	if copied.MatchString(dir + "/") {
		return "it is copied to other machines, with all that your agents said and a database that may be damaged by it"
	}
	return ""
}
