package agentconn

import (
	"bytes"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Peer returns the run of the process at the other end of a socket: see
// RunOf. It is "" where that cannot be told. A process of another user is refused.
func Peer(c *net.UnixConn, _ string) (string, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", err
	}
	var cred *unix.Ucred
	if outer := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); outer != nil {
		return "", outer
	} else if err != nil {
		return "", err
	}
	return RunOf(int(cred.Pid)), mine(cred.Uid)
}

// RunOf names a process for good: by the machine's start, its id, and when it started
// in clock ticks after that. It is "" if none of that id runs.
func RunOf(pid int) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// After the name, which may hold anything: state, and 19 fields on the start.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0][0] == 'Z' {
		return ""
	}
	return fmt.Sprintf("%s %d %s", bytes.TrimSpace(boot), pid, fields[19])
}
