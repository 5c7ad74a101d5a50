package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"
)

// Figure is one measurement.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Target is the limit that was set; AtLeast tells on which side of it the value must be. No target: zero.
	Target  float64 `json:"target,omitempty"`
	AtLeast bool    `json:"atLeast,omitempty"`
	// Baseline is what the same run measured without the part in question, and BaselineName what that was.
	Baseline     float64 `json:"baseline,omitempty"`
	BaselineName string  `json:"baselineName,omitempty"`
	Cores        int     `json:"cores"`
	Met          *bool   `json:"met,omitempty"`
}

// Report collects figures.
type Report struct{ Figures []Figure }

// Add notes a figure and whether it met its target.
func (r *Report) Add(figure Figure) {
	figure.Cores = runtime.NumCPU()
	if figure.Target != 0 {
		met := figure.Value <= figure.Target
		if figure.AtLeast {
			met = figure.Value >= figure.Target
		}
		figure.Met = &met
	}
	r.Figures = append(r.Figures, figure)
}

// Print writes the table.
func (r *Report) Print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "\nmeasured on %d cores\nwhat\tvalue\tunit\ttarget\tmet\tbaseline\n", runtime.NumCPU())
	for _, f := range r.Figures {
		target, met, baseline := "–", "–", "–"
		if f.Met != nil {
			sign := "≤"
			if f.AtLeast {
				sign = "≥"
			}
			target, met = fmt.Sprintf("%s %.4g", sign, f.Target), map[bool]string{true: "yes", false: "NO"}[*f.Met]
		}
		if f.BaselineName != "" {
			baseline = fmt.Sprintf("%.4g (%s)", f.Baseline, f.BaselineName)
		}
		_, _ = fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\t%s\t%s\n", f.Name, f.Value, f.Unit, target, met, baseline)
	}
	return table.Flush()
}

// Write stores the figures as JSON.
func (r *Report) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(r.Figures, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o644)
}
