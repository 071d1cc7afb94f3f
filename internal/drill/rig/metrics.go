package rig

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var metricsClient = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Metrics reads the node's metrics: the sum of each name over all labels.
func (n *Node) Metrics(ctx context.Context) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	resp, err := metricsClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer resp.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		// A label's value may contain spaces, but the number follows the last one.
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 {
			continue
		}
		name, _, _ := strings.Cut(lines.Text()[:at], "{")
		value, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading metric %s: %w", name, err)
		}
		sums[name] += value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return sums, nil
}
