//go:build !linux

package agentconn

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/shirou/gopsutil/v4/process"
)

// Peer cannot tell here which run of a server it is: its requests are asked anew
// over each connection. Whose it is, its socket's file tells.
func Peer(_ *net.UnixConn, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return "", mine(info.Sys().(*syscall.Stat_t).Uid)
}

// RunOf names a process for good: by its id and when it started. It is "" if none of
// that id runs.
func RunOf(pid int) string {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return ""
	}
	at, err := p.CreateTime()
	if err != nil {
		return ""
	}
	state, err := p.Status()
	if err != nil || len(state) > 0 && state[0] == process.Zombie {
		return ""
	}
	return fmt.Sprint(pid, " ", at)
}
