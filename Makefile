# Two commands do it all: make run, make test.

GO ?= go
# The race detector needs a C compiler; without one the tests run without it.
RACE := $(if $(shell command -v gcc || command -v clang),-race)

.PHONY: run build generate test security fuzz fuzz-answer fuzz-card fuzz-markdown fuzz-outline fuzz-codex fuzz-copilot vuln crash bench bench-go tools

run: build
	@bin/nod

build:
	$(GO) build -trimpath -ldflags "-s -w" -o bin/nod ./cmd/web

generate:
	$(GO) tool templ generate
	$(GO) tool minify -o static/live.min.js static/live.js

# -count=1: e2e runs the built program, of whose sources the cache knows nothing.
test: tools
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'not gofmt-ed:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) tool templ generate -check
	$(GO) tool minify static/live.js | cmp - static/live.min.js
	NOD_E2E=required $(GO) test $(RACE) -count=1 -timeout 20m ./...

# What nod promises about security, each with what came of the tests that prove it.
security: tools
	NOD_E2E=required $(GO) run ./e2e/security

# Strangers' words at the places where they come in: what an answer is bound to, what
# a card shows, markdown, and all that Codex and Copilot say. Each takes one core: make
# -j2 fuzz has two at a time.
FUZZTIME ?= 30s
FUZZ = $(GO) test -run '^$$' -parallel 1 -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -fuzz
fuzz: fuzz-answer fuzz-card fuzz-markdown fuzz-outline fuzz-codex fuzz-copilot
fuzz-answer:
	$(FUZZ) '^FuzzR4Digest$$' ./state/approvals
fuzz-card:
	$(FUZZ) '^FuzzReveal$$' ./views/reveal
fuzz-markdown:
	$(FUZZ) '^FuzzHTML$$' ./views/markdown
fuzz-outline:
	$(FUZZ) '^FuzzR20Outline$$' ./agentconn
fuzz-codex:
	$(FUZZ) '^FuzzR20Codex$$' ./agentconn/codex
fuzz-copilot:
	$(FUZZ) '^FuzzR20Copilot$$' ./agentconn/copilot

# Known faults of what nod is made of; it asks a database on the internet.
vuln:
	@$(GO) tool govulncheck ./... || { [ $$? = 3 ] || echo 'Nothing was looked up: without its database, which is on the internet, govulncheck cannot tell.'; exit 1; }

# Kill nod so many times, and look what is left: make crash ROUNDS=2000.
ROUNDS ?= 60
crash: tools
	NOD_E2E=required NOD_CRASH_ROUNDS=$(ROUNDS) $(GO) test ./e2e -run '^TestCrash' -count=1 -v -timeout 24h

# What nod costs, each figure beside its target; also in bench.json. Some of it, in
# a tenth of the time: make bench BENCH='-quick -run viewers'.
bench: tools
	$(GO) run ./e2e/bench $(BENCH)
	$(MAKE) bench-go

# What its parts cost, each figure beside what it is compared with.
bench-go:
	$(GO) test -run '^$$' -bench . ./state ./state/journal ./views/markdown ./views/ansi ./views/diff ./handlers

# What the tests need beyond Go: a browser, a terminal, and the real agents.
tools: e2e/node_modules
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq chromium >/dev/null; \
	  else echo 'The browser tests need Chromium. Install the package chromium, then try again.'; exit 1; fi; }
	@command -v tmux >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq tmux >/dev/null; \
	  else echo 'The tests of a Codex in a terminal need tmux. Install it, then try again.'; exit 1; fi; }
	@command -v nginx >/dev/null || command -v /usr/sbin/nginx >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq nginx-light >/dev/null; \
	  else echo 'The tests behind a reverse proxy need nginx. Install it, then try again.'; exit 1; fi; }

e2e/node_modules: e2e/package-lock.json
	npm ci --prefix e2e --no-audit --no-fund --silent
	@touch $@
