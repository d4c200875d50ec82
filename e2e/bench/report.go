package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is one figure, or the error in its place.
type row struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Target string  `json:"target,omitempty"` // "<= 40"; "" if there is none
	Met    *bool   `json:"met,omitempty"`
	Note   string  `json:"note,omitempty"`
	Error  string  `json:"error,omitempty"`
}

func figure(name string, value float64, unit string) row {
	return row{Name: name, Value: value, Unit: unit}
}

func (r row) atMost(most float64) row   { return r.against("<=", most, r.Value <= most) }
func (r row) below(limit float64) row   { return r.against("<", limit, r.Value < limit) }
func (r row) atLeast(least float64) row { return r.against(">=", least, r.Value >= least) }

func (r row) against(sign string, limit float64, met bool) row {
	r.Target, r.Met = sign+" "+number(limit), &met
	return r
}

func (r row) noted(note string) row {
	r.Note = note
	return r
}

// number shows three digits, or all of a whole number.
func number(v float64) string {
	if v >= 100 || v == float64(int(v)) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func printTable(out io.Writer, rows []row) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "figure\tvalue\ttarget\t\t")
	for _, r := range rows {
		if r.Error != "" {
			_, _ = fmt.Fprintf(w, "%s\t-\t\tERROR\t%s\n", r.Name, strings.Join(strings.Fields(r.Error), " "))
			continue
		}
		mark := ""
		if r.Met != nil {
			mark = map[bool]string{true: "ok", false: "MISSED"}[*r.Met]
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, strings.TrimSpace(number(r.Value)+" "+r.Unit), r.Target, mark, r.Note)
	}
	_ = w.Flush()
}

// writeJSON keeps the rows, and what they were measured on.
func writeJSON(file string, quick bool, rows []row) error {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // "" where there is none
	b, err := json.MarshalIndent(map[string]any{
		"cpus": runtime.NumCPU(), "go": runtime.Version(), "kernel": strings.TrimSpace(string(kernel)), "quick": quick, "rows": rows,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// quantile returns the smallest value that a share q of all values does not
// exceed, and 0 of none. It sorts values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	at := int(q*float64(len(values)) + 0.999999) // q of 100 values is a whole number, give or take a rounding
	return values[min(max(at, 1), len(values))-1]
}
