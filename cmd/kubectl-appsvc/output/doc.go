// Package output prints what commands say: texts, tables as kubectl prints them, and objects in the
// formats of kubectl. It knows no hub.
//
//   - Without a terminal, a text has 80 columns, no colour and no limit of lines.
//   - What a command has done goes to the output, with [Streams.Write] or [Streams.Say]. What only
//     people read goes to the error stream, with [Streams.Note].
package output
