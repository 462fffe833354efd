// Package view renders AppServices as text for a terminal. It is pure: the same objects, time and
// width give the same text.
//
//	text := view.Status(app, view.Options{Now: time.Now(), Width: 80})
//
// # Contract
//
//   - Sentences are wrapped at the width. The line of a cluster or of a stage is not wrapped, so a long
//     name makes it longer.
//   - Colour repeats what a word says, and is left out unless Options.Color is set.
//   - Clusters that need attention come first. If there are many clusters, the first ones are listed,
//     and the others are counted by phase. Options.All lists all of them.
package view
