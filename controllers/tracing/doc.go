// Package tracing collects all work for one edit of an AppService in one trace, across the planner
// and the delivery to each member. It stores nothing on objects: the trace ID is derived from the
// UID and the generation, so every component computes the same ID.
//
// A reconciliation emits a span if it changed something, failed, or had a new outcome, with a child
// span for each request that it sent. A reconciliation that changes nothing emits no span, even if
// it sent reads. After a generation has become Ready, later work for it gets a separate trace with
// a link to the trace of the edit. So a trace ends and does not grow for months.
//
// Nothing is recorded until the process has a TracerProvider. Without one, a reconciliation costs
// two small allocations.
//
// # Usage
//
//	ctx, record := tracing.Start(ctx, tracing.Work{Name: "plan", App: app})
//	err := plan(ctx, app) // may call tracing.FromContext(ctx).SetOutcome(phase, reason)
//	record.End(err)
//
// The clients whose requests are to be recorded need [Transport] around their round tripper.
package tracing
