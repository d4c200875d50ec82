package handlers

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// TestR40StrangersInTheLog: what they say is cut there, and so is how often.
func TestR40StrangersInTheLog(t *testing.T) {
	var log logged
	s, _ := limited(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	long := strings.Repeat("a", 10<<10)
	for range 2 * maxLines {
		s.get(s.out, "/", header("Host", long), header("Origin", long))
	}
	for range 2 * maxLines {
		s.post(s.out, "/login", url.Values{"token": {"wrong"}})
	}
	text := log.String()
	if n := strings.Count(text, "level=WARN"); n < maxLines || n > maxLines+10 {
		t.Errorf("%d lines", n)
	}
	if len(text) > maxLines*1000 {
		t.Errorf("%d bytes", len(text))
	}
}
