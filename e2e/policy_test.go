package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// policy collects how the pages of a tab have broken their own policy: something was
// left on one that nod did not mean to be there, or nod forgot what it allows itself.
// The browser tells it of workers and of pages without scripts as well.
type policy struct {
	provoked bool // by the test
	ended    chan struct{}
	broken   []string // until ended is closed the goroutine's
}

// watch begins to collect until the tab is closed.
func (p *policy) watch(t *testing.T, ctx context.Context) {
	t.Helper()
	issues := chromedp.Events(ctx, audits.IssueAdded)
	if _, err := chromedp.Call(ctx, audits.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		for e, err := range issues {
			if err != nil {
				return
			}
			if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
				p.broken = append(p.broken, fmt.Sprintf("%s by %s %q", d.ViolatedDirective, d.ContentSecurityPolicyViolationType, d.BlockedURL))
			}
		}
	}()
}

// obeyed fails on what was collected. The tab is closed by then.
func (p *policy) obeyed(t *testing.T) {
	if p.ended == nil {
		return
	}
	<-p.ended
	if p.provoked != (len(p.broken) > 0) {
		t.Errorf("R18: a page has broken its policy, or should have: %q", p.broken)
	}
}
