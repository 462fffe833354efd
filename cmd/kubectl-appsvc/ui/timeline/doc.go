// Package timeline says what happened in the rollout of the current revision of an AppService, what
// happens now, and what is still to come. It is pure, and stores nothing: it joins status.rollout, the
// events of the AppService and its stored revisions.
//
//	line := timeline.Of(timeline.Input{App: app, Stored: stored, Events: events})
//
// # Contract
//
//   - The status has the present: the phase of each stage, and since when. Events have the past, and the
//     hub deletes them after an hour by default. A moment that only an event has known has no time then,
//     and [Timeline.Notes] says so. No time is derived from another one.
//   - Events of another AppService of the same name, or of another revision, are ignored. The revision is
//     in the message of an event, as package status of the operator writes it.
//   - There is no clock in it: a soak has the time at which it ends, and the reader counts.
//   - Texts have no characters that are not printable.
package timeline
