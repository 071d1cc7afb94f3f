package receiver

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// The messages of log lines that anyone can cause without a secret.
const (
	logRefused    = "delivery refused"
	logDoubted    = "delivery put off: it verifies but for its time, and our clock may be wrong"
	logKeyAwaited = "delivery put off: its key is not known and could not be asked for now"
	logUnverified = "delivery not verified"
	logPanicked   = "delivery panicked"
	// logConnections says what to do, because a proxy that is not trusted looks like one
	// peer.
	logConnections = "peer at its limit of connections, so its slowest are closed: if it is a proxy, name it in listen.trusted_proxies; else listen.connections_per_peer may allow more"
	logShed        = "delivery shed: its body arrived too slowly for the memory that it held"
)

// UnprovedMessages returns the messages of log lines that anyone can cause without a
// secret. A logger should bound how many of them it writes.
func UnprovedMessages() []string {
	return []string{logRefused, logDoubted, logKeyAwaited, logUnverified, logPanicked, logShed, logConnections}
}

// logs reports whether to write a line that counts against quota.
func (r *Receiver) logs(req *request, quota *quota) bool {
	return r.cfg.LogEvery || quota.take(req.started) == 0
}

// logReceipt writes the line by which people follow an event.
func (r *Receiver) logReceipt(req *request, delivery *providers.Delivery, receipt *inbox.Receipt) {
	ctx := req.http.Context()
	if !r.cfg.Logger.Enabled(ctx, slog.LevelWarn) {
		return
	}
	info := r.cfg.Logger.Enabled(ctx, slog.LevelInfo)
	for i := range receipt.Items {
		item := &receipt.Items[i]
		if !info && item.Outcome != inbox.Conflict {
			continue
		}
		attrs := []slog.Attr{
			slog.String("source", req.source.name),
			slog.String("event", item.ID.String()),
			slog.String("id", r.cfg.Installation.Logged(delivery.Items[i].EventID)),
			slog.String("type", delivery.Items[i].Type),
			slog.String("outcome", string(item.Outcome)),
			slog.Float64("elapsed_ms", float64(r.cfg.Now().Sub(req.started).Microseconds())/1000),
		}
		attrs = req.withTraceID(attrs)
		if req.message != nil {
			attrs = append(attrs, slog.String("via", "broker"))
		}
		if item.Intent != nil && r.cfg.Installation.Value == nil { // with a secret, a hash of content is not in the log either
			attrs = append(attrs, slog.String("payload_hash", hex.EncodeToString(item.Intent)))
		}
		if r.cfg.Node != "" {
			attrs = append(attrs, slog.String("node", r.cfg.Node))
		}
		if why := delivery.Items[i].Unusable; why != "" {
			attrs = append(attrs, slog.String("reason", why))
		}
		switch {
		case item.Outcome == inbox.Duplicate:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "duplicate recognised", attrs...)
		case item.Outcome == inbox.Conflict:
			// A person must look at it: the sender now uses this id for something else.
			r.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "conflict recorded", attrs...)
		case item.BeyondRetention:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "event older than keys are kept", attrs...)
		case item.Unusable:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "event unusable", attrs...)
		default:
			r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "event recorded", attrs...)
		}
	}
}

// logBuffered writes the line of a delivery that is kept in the buffer. The line of each event follows when it is recorded.
func (r *Receiver) logBuffered(req *request) {
	ctx := req.http.Context()
	if r.cfg.Logger.Enabled(ctx, slog.LevelInfo) {
		r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "delivery buffered", req.withTraceID([]slog.Attr{
			slog.String("source", req.source.name), slog.String("request", req.id),
			slog.Float64("elapsed_ms", float64(r.cfg.Now().Sub(req.started).Microseconds())/1000),
		})...)
	}
}

// logRefusal writes at most one line a second for each source, unless the logger is one
// that folds; the metrics count all.
func (r *Receiver) logRefusal(req *request, why reason, detail string) {
	ctx := req.http.Context()
	if !r.cfg.Logger.Enabled(ctx, slog.LevelInfo) || !r.logs(req, req.source.logs) {
		return
	}
	r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, logRefused,
		slog.String("source", req.source.name), slog.String("reason", string(why)), slog.String("detail", detail),
		slog.String("remote", r.remote(req.http)), slog.String("request", req.id))
}

// logShed warns that memory for bodies is scarce, at most once a second for each source.
func (r *Receiver) logShed(req *request) {
	if r.logs(req, req.source.faults) {
		r.cfg.Logger.LogAttrs(req.http.Context(), slog.LevelWarn, logShed,
			slog.String("source", req.source.name), slog.String("remote", r.remote(req.http)), slog.String("request", req.id))
	}
}

// logDoubted warns that a delivery was postponed because our clock may be wrong, at most
// once a second for each source.
func (r *Receiver) logDoubted(req *request, refusal *providers.Refusal) {
	if r.logs(req, req.source.faults) {
		r.cfg.Logger.LogAttrs(req.http.Context(), slog.LevelWarn, logDoubted,
			slog.String("source", req.source.name), slog.String("detail", refusal.Detail), slog.String("request", req.id))
	}
}

// logKeyAwaited logs a delivery whose key could not be fetched. Anyone can invent keys, so
// it is logged at the level of a refusal.
func (r *Receiver) logKeyAwaited(req *request, deferral *providers.Deferral) {
	ctx := req.http.Context()
	if !r.cfg.Logger.Enabled(ctx, slog.LevelInfo) || !r.logs(req, req.source.logs) {
		return
	}
	r.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, logKeyAwaited,
		slog.String("source", req.source.name), slog.String("detail", deferral.Err.Error()),
		slog.String("remote", r.remote(req.http)), slog.String("request", req.id))
}

// logUnverified reports a fault of a provider's, at most once a second for each
// source.
func (r *Receiver) logUnverified(req *request, err error) {
	if r.logs(req, req.source.faults) {
		r.cfg.Logger.LogAttrs(req.http.Context(), slog.LevelError, logUnverified, req.fault(err)...)
	}
}

// logUnrecorded reports a fault of the gate's, at most once a second for each
// source.
func (r *Receiver) logUnrecorded(req *request, err error) {
	if r.logs(req, req.source.faults) {
		r.cfg.Logger.LogAttrs(req.http.Context(), slog.LevelError, "delivery not recorded", req.fault(err)...)
	}
}

func (req *request) fault(err error) []slog.Attr {
	return req.withTraceID([]slog.Attr{slog.String("source", req.source.name), slog.String("request", req.id), slog.Any("error", err)})
}

// logPanic logs where a panic happened. The value may contain content, so only runtime
// errors are quoted.
func (r *Receiver) logPanic(req *request, value any) {
	if !r.logs(req, req.source.faults) {
		return
	}
	text := fmt.Sprintf("%T", value)
	if err, ok := value.(runtime.Error); ok {
		text = err.Error()
	}
	r.cfg.Logger.LogAttrs(req.http.Context(), slog.LevelError, logPanicked,
		slog.String("source", req.source.name), slog.String("request", req.id),
		slog.String("panic", text), slog.String("stack", string(debug.Stack())))
}
