package codex

import (
	"bytes"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer names the run of the process that listens at the other end of a socket:
// its id and when it started. It is "" where that cannot be told.
func peer(c *net.UnixConn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	var cred *unix.Ucred
	if raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return ""
	}
	started := startTicks(int(cred.Pid))
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if started == "" || err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d %s", bytes.TrimSpace(boot), cred.Pid, started)
}

// startTicks is when a process started, in clock ticks after boot; "" if there is
// none of that id. Together they name a process for good.
func startTicks(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// After the name, which may hold anything: state, and 19 fields on the start.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	return string(fields[19])
}
