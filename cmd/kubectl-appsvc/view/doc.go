// Package view renders AppServices as text for a terminal. It is pure: the same objects, time and
// width give the same text.
//
//	text := view.Status(app, view.Options{Now: time.Now(), Width: 80})
//
// # Contract
//
//   - Sentences are wrapped at the width. The line of a cluster or of a stage is not wrapped, so a long
//     name makes it longer.
//   - Every text of an object goes through [output.Printable], so an object cannot print an escape
//     sequence or a line of its own.
//   - Colour repeats what a word says, and is left out unless Options.Color is set.
//   - With Options.HidesAges, the text changes only with the state. So does [Progress].
//   - Clusters that need attention come first. If there are many clusters, the first ones are listed,
//     and the others are counted by phase. Options.All lists all of them.
package view
