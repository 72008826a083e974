package simulate

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// heading says what was simulated.
func (r *Report) heading() string {
	c := r.Config
	name := ""
	if c.Name != "" {
		name = c.Name + ": "
	}
	gpu := fmt.Sprintf("%d CUs", c.Geometry.CUs)
	if c.Geometry.XCCs > 1 {
		gpu += fmt.Sprintf(" on %d XCCs", c.Geometry.XCCs)
	}
	if c.Geometry.CUsPerWGP > 1 {
		gpu += " in pairs"
	}
	return fmt.Sprintf("%s%s, %d requests of %d-%d %%, load %.3g, seed %d", name, gpu, c.Requests, c.MinPercent, c.MaxPercent, c.Load, c.Seed)
}

// Table writes a heading, and below it a column for each policy:
//
//	granted, refused  pods
//	scattered         refused although as many CUs were free
//	starved           masks that leave an XCC without a CU
//	half WGP          masks with half a WGP
//	mean, p5          effective CUs in parts of those granted: mean and 5th percentile
//	of bound          effective CUs in parts of what as many reach on an idle GPU, mean
//	of possible       and in parts of what the free CUs allowed, mean
//	ranges            ranges of a mask, mean
//	free usable       effective CUs in parts of the free CUs, mean over time
func (r *Report) Table(w io.Writer) error {
	count := func(n int) string { return strconv.Itoa(n) }
	part := func(f float64) string { return strconv.FormatFloat(f, 'f', 4, 64) }
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, r.heading())
	for _, row := range []struct {
		name  string
		value func(p *Result) string
	}{
		{"", func(p *Result) string { return p.Policy }},
		{"granted", func(p *Result) string { return count(p.Granted) }},
		{"refused", func(p *Result) string { return count(p.Refused) }},
		{"scattered", func(p *Result) string { return count(p.Scattered) }},
		{"starved", func(p *Result) string { return count(p.Starved) }},
		{"half WGP", func(p *Result) string { return count(p.HalfWGP) }},
		{"mean", func(p *Result) string { return part(p.OfGranted) }},
		{"p5", func(p *Result) string { return part(p.OfGrantedP5) }},
		{"of bound", func(p *Result) string { return part(p.OfBound) }},
		{"of possible", func(p *Result) string { return part(p.OfPossible) }},
		{"ranges", func(p *Result) string { return strconv.FormatFloat(p.Ranges, 'f', 2, 64) }},
		{"free usable", func(p *Result) string { return part(p.FreeUsable) }},
	} {
		fmt.Fprintf(b, "%-11s", row.name)
		for i := range r.Results {
			fmt.Fprintf(b, "  %*s", max(len(r.Results[i].Policy), 8), row.value(&r.Results[i]))
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}

// CSV writes the samples of all policies, with a header. The columns are those of
// [Sample].
func (r *Report) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"policy", "time", "granted", "refused", "starved", "half_wgp", "effective_of_granted", "effective_of_bound", "free_usable", "used_cus", "pods", "free_ranges", "free_effective"}}
	for _, p := range r.Results {
		for _, s := range p.Samples {
			rows = append(rows, []string{p.Policy, strconv.FormatFloat(s.Time, 'f', 2, 64),
				strconv.Itoa(s.Granted), strconv.Itoa(s.Refused), strconv.Itoa(s.Starved), strconv.Itoa(s.HalfWGP),
				strconv.FormatFloat(s.OfGranted, 'f', 4, 64), strconv.FormatFloat(s.OfBound, 'f', 4, 64),
				strconv.FormatFloat(s.FreeUsable, 'f', 4, 64), strconv.Itoa(s.UsedCUs), strconv.Itoa(s.Pods),
				strconv.Itoa(s.FreeRanges), strconv.Itoa(s.FreeEffective)})
		}
	}
	return c.WriteAll(rows)
}
