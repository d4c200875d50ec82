//go:build !linux && !darwin

package handlers

import (
	"context"
	"net"
)

func limitUnsent(ctx context.Context, _ net.Conn) context.Context { return ctx }
