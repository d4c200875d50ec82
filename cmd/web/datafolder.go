package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// openData makes the data folder ours alone and locks it. The lock ends with
// the process.
func openData(dir string) (lock *os.File, err error) {
	if err := checkData(dir, true); err != nil {
		return nil, err
	}
	lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data folder %s cannot be used: %w", dir, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("another nod is using the data folder %s; use that one, end it, or name another folder with --data", dir)
	}
	return lock, nil
}

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
