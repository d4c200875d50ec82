package main

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

const canary = "c4n4ry-Sings-In-The-Mine"

// TestR35Redacted: no secret comes through, wherever in a record it stands and
// whatever stands before it.
func TestR35Redacted(t *testing.T) {
	ours := strings.Repeat("aB3_-", 9)[:43]
	t.Setenv("NOD_TEST_API_KEY", "value-of-a-variable")
	for _, text := range []string{
		"Cookie: nod_8787=" + canary + "; other=" + canary, "set-cookie=" + canary, `{"authorization":"` + canary + `"}`,
		"Authorization: Basic " + canary, "bearer " + canary, "it says Bearer " + canary + " there",
		"http://127.0.0.1:8787/login#k=" + canary, "/login#k=" + canary, "#k=" + canary,
		"GET /s/1/live?since=" + canary + " HTTP/1.1", "wss://host/path?token=x&more=" + canary, "unix:///run/x.sock?" + canary,
		"https://me:" + canary + "@host/path", "token=" + canary, `"access_token": "` + canary + `"`, `{\"apiKey\":\"` + canary + `\"}`,
		"OPENAI_API_KEY=" + canary, "password: " + canary, "client-secret='" + canary + "'",
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END OPENSSH PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + canary,
		"sk-proj-" + canary, "ghp_" + canary, "github_pat_" + canary, "xoxb-" + canary,
		"a cookie " + ours + " in a sentence", ours, "value-of-a-variable", "x=value-of-a-variable!",
	} {
		var out bytes.Buffer
		log := newLog(&out, slog.LevelDebug)
		u := url.URL{Scheme: "http", Host: "h", RawQuery: url.Values{"q": {text}}.Encode()}
		log.With("with", text).WithGroup("g").Error(text, "text", text, "err", errors.New("panic: "+text), "bytes", []byte(text),
			"any", struct{ Text string }{text}, "pointer", &struct{ Text string }{text}, slog.Group("group", "in", text), "url", &u, "lazy", lazy(text))
		for _, secret := range []string{canary, ours, "value-of-a-variable"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%q comes through: %s", text, out.String())
			}
		}
	}
}

// lazy is found out only when it is logged.
type lazy string

func (l lazy) LogValue() slog.Value { return slog.StringValue(string(l)) }

// TestR35SecretAttributes: what is called a secret is one, whatever it looks like.
func TestR35SecretAttributes(t *testing.T) {
	var out bytes.Buffer
	newLog(&out, slog.LevelInfo).Info("x", "token", "short", "Cookie", "c=d", "githubToken", 12345, slog.Group("g", "password", []byte("pw")))
	for _, secret := range []string{"short", "c=d", "12345", "pw"} {
		if strings.Contains(out.String(), "="+secret) {
			t.Errorf("%q comes through: %s", secret, out.String())
		}
	}
}

// TestR35WhatIsUsefulStays: a log that tells nothing helps nobody.
func TestR35WhatIsUsefulStays(t *testing.T) {
	for _, text := range []string{
		"started", "the link to ws://127.0.0.1:4500 is lost: connection refused", "input tokens: 1200", "tokens=1200",
		"/home/me/project/file#3.txt", "GET /s/:id/live", "0.122.0", "why? because", "is it basic or not",
		"ahp-session:/n4q2w7e4o6a5zk2zjq3yhxkqma", "no such file or directory: /run/user/1000/codex.sock",
	} {
		var out bytes.Buffer
		newLog(&out, slog.LevelInfo).Info("x", "text", text)
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q became %s", text, out.String())
		}
	}
}
