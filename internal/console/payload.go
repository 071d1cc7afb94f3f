package console

import (
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/pretty"
	"github.com/oncegate/oncegate/internal/visible"
)

const (
	// shownRaw and shownHex are how many bytes of a payload a page shows. A download has all of them.
	shownRaw = 256 << 10
	shownHex = 32 << 10
)

// payload reads a payload with its secrets masked. A payload that is not kept does not fail the page; missing then says
// why.
func (r *request) payload(kind string, id inbox.ID) (found *control.Payload, missing string, err error) {
	found, err = call(r, &control.ShowPayload, control.PayloadRequest{Kind: kind, ID: id})
	if err == nil {
		return found, "", nil
	}
	if problem := control.ProblemOf(err); problem.Code == control.CodeNotFound {
		if errors.Is(err, inbox.ErrNotFound) {
			return nil, "The payload is not kept any more: it was pruned or erased.", nil
		}
		return nil, capital(problem.Error()), nil
	}
	return nil, "", err
}

// lengthText is the length of a payload. An access without read-payload sees it rounded up.
func lengthText(bytes int, rounded bool) string {
	if rounded {
		return "at most " + byteSize(int64(bytes))
	}
	return byteSize(int64(bytes))
}

// hashText is a hash of content; empty if the access may not see it.
func hashText(sum string) string {
	if sum == "" {
		return ""
	}
	return "sha256 " + sum
}

// payloadBlocks shows a payload, with the forms that reveal it.
func payloadBlocks(r *request, p *control.Payload, missing, path string) []block {
	if p == nil {
		return []block{{ID: "payload", Title: "Payload", Text: missing}}
	}
	b := block{ID: "payload", Title: "Payload", Body: &body{Text: p.Text}}
	notes := []string{lengthText(p.Bytes, p.PayloadHidden)}
	switch {
	case p.PayloadHidden:
		notes = append(notes, "your access shows no content of payloads: that needs read-payload")
	case p.Format != "json":
		notes = append(notes, "this is not JSON, so no part of it can be masked: reveal it to see it")
	}
	if p.Masked > 0 {
		notes = append(notes, count(p.Masked, "value is masked", "values are masked"))
	}
	if p.Cut {
		notes = append(notes, "the text is cut: download it to see all of it")
	}
	b.Body.Note = capital(strings.Join(notes, "; ")) + "."
	if r.may(control.ReadPayload) {
		b.Forms = []form{{Action: path + "/payload", ChoiceName: "view", Choices: payloadViews(), Text: "Reveal it with nothing masked. The audit says who looked."}}
	}
	blocks := []block{b}
	if len(p.Headers) > 0 {
		h := block{ID: "headers", Title: "Headers"}
		for _, header := range p.Headers {
			value := code(header.Value)
			if header.Masked {
				value = cell{Text: "(masked)"}
			}
			h.Facts = append(h.Facts, is(header.Name, value))
		}
		blocks = append(blocks, h)
	}
	return blocks
}

func payloadViews() []option {
	return []option{{Value: "pretty", Text: "Laid out"}, {Value: "raw", Text: "As it came"}, {Value: "hex", Text: "Hex"}, {Value: "download", Text: "Download"}}
}

// revealPayload returns the handler that shows a payload of a kind with nothing masked.
func revealPayload(kind string) func(*request) (*page, error) {
	return func(r *request) (*page, error) {
		id, err := r.id()
		if err != nil {
			return nil, err
		}
		revealed, err := call(r, &control.RevealPayload, control.PayloadRequest{Kind: kind, ID: id})
		if err != nil {
			return nil, err
		}
		if r.PostFormValue("view") == "download" {
			return nil, r.download(kind+"-"+id.String()+".bin", revealed.Body)
		}
		return revealedPage(r, revealed, r.PostFormValue("view")), nil
	}
}

// download sends bytes so that no browser shows or runs them.
func (r *request) download(name string, content []byte) error {
	h := r.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Content-Length", strconv.Itoa(len(content)))
	r.w.WriteHeader(http.StatusOK)
	_, _ = r.w.Write(content) // the browser is gone if this fails
	return errAnswered
}

// revealedPage shows a payload with nothing masked.
func revealedPage(r *request, p *control.Revealed, view string) *page {
	path := "/" + p.Kind + "s/" + p.ID.String()
	out := &page{Title: "Payload", Lead: "Nothing is masked. The audit says that you looked.", Back: &link{Text: capital(p.Kind) + " " + short(p.ID), Href: path}}
	b := block{Body: &body{Note: byteSize(int64(len(p.Body)))}, Forms: []form{{Action: path + "/payload", ChoiceName: "view", Choices: payloadViews()}}}
	switch view {
	case "hex":
		shown := p.Body[:min(len(p.Body), shownHex)]
		b.Body.Text = hex.Dump(shown)
		b.Body.Note += cutNote(len(shown), len(p.Body))
	case "raw":
		shown := p.Body[:min(len(p.Body), shownRaw)]
		b.Body.Text = lines(string(shown))
		b.Body.Note += cutNote(len(shown), len(p.Body))
	default:
		laid, ok := pretty.JSON(p.Body, pretty.Options{})
		if !ok {
			shown := p.Body[:min(len(p.Body), shownRaw)]
			b.Body.Text = lines(string(shown))
			b.Body.Note += "; not JSON, shown as it came" + cutNote(len(shown), len(p.Body))
			break
		}
		b.Body.Text = laid.Text
		if laid.Cut {
			b.Body.Note += cutNote(pretty.DefaultLimit, len(p.Body))
		}
	}
	if len(p.Body) == 0 {
		b.Body.Note = "The payload is empty."
	}
	h := block{ID: "headers", Title: "Headers"}
	for _, header := range p.Headers {
		h.Facts = append(h.Facts, is(header.Name, code(header.Value)))
	}
	out.Blocks = append(out.Blocks, b)
	if len(h.Facts) > 0 {
		out.Blocks = append(out.Blocks, h)
	}
	return out
}

func cutNote(shown, all int) string {
	if shown >= all {
		return ""
	}
	return fmt.Sprintf("; only the beginning is shown, %s: download it to see all of it", byteSize(int64(shown)))
}

// lines shows bytes as text: line breaks and tabs unchanged, and invisible characters as escapes.
func lines(content string) string {
	var b strings.Builder
	for i, line := range strings.Split(content, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, part := range strings.Split(line, "\t") {
			if j > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(visible.Text(part))
		}
	}
	return b.String()
}

// comparePayloads shows the differences between the payloads of two events.
func comparePayloads(r *request) (*page, error) {
	first, err := call(r, &control.ShowEvent, control.EventReference{Ref: r.query("first")})
	if err != nil {
		return nil, err
	}
	second, err := call(r, &control.ShowEvent, control.EventReference{Ref: r.query("second")})
	if err != nil {
		return nil, err
	}
	found, err := call(r, &control.ComparePayloads, control.ComparePayloadsRequest{First: first.ID, Second: second.ID})
	if err != nil {
		return nil, err
	}
	p := &page{Title: "Two payloads", Back: &link{Text: first.EventID, Href: eventLink(first.ID)}}
	p.Blocks = append(p.Blocks, block{Facts: []fact{
		is("First", cell{Text: first.EventID, Href: eventLink(first.ID), Detail: first.Source + " · " + first.Type}),
		is("Second", cell{Text: second.EventID, Href: eventLink(second.ID), Detail: second.Source + " · " + second.Type}),
	}}, changeBlock(found.Data))
	return p, nil
}

// changeBlock shows changes.
func changeBlock(changes []replay.Change) block {
	b := block{ID: "changes", Title: "What differs"}
	if len(changes) == 0 {
		b.Text = "The two say the same."
		return b
	}
	b.Body = &body{}
	for _, c := range changes {
		b.Body.Changes = append(b.Body.Changes, change{Path: c.Path, Before: cut(c.Before), After: cut(c.After)})
	}
	return b
}

// cut shortens a value for a table.
func cut(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
