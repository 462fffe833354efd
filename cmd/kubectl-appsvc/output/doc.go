// Package output prints what commands say: texts, tables as kubectl prints them, and objects in the
// formats of kubectl. It knows no hub.
//
//   - Without a terminal, a text has 80 columns, no colour and no limit of lines.
//   - What a command has done goes to the output, with [Streams.Write] or [Streams.Say]. What only
//     people read goes to the error stream, with [Streams.Note].
//   - These print no character that is not printable, so a text of an object cannot contain an escape
//     sequence. Formats for programs, such as -o json, and logs are printed as they are.
//   - An output that cannot be written is an error at the end of the command: [Streams.WriteError].
package output
