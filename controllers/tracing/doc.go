// Package tracing puts what is done for one edit of an AppService into one trace, whoever does it: the planner, and delivery to each
// member. Nothing is written on an object for that: the trace's ID is made of the UID and the generation, so all come to the same.
//
// A reconcile leaves a span when it changed something, failed, or came to something new, and below that one for each request that it
// sent. One that finds everything as it was leaves none, even where it had to ask. What is done for a generation after it has become
// Ready is a trace of its own, which has a link to the edit's: so a trace ends, and what happens in a year does not grow it.
//
// Nothing is recorded until the process has a TracerProvider: until then a reconcile costs two small allocations.
package tracing
