// Package dev starts the real components that an Assay fleet stands on, privately and on one machine.
//
// Each starter owns one directory and nothing outside of it: a Postgres cluster on a unix socket, a nats-server inside
// this process, a containerd with its own root, state and socket. Nothing of the system's is used, changed or restarted.
// `assay dev`, the tests and the benchmarks share these starters, so that what a developer runs is what is tested.
//
// The rules are the same for all of them:
//   - Start returns when the component answers, or with an error that says what to do about it. The context bounds the
//     starting only; a started component runs until Stop.
//   - A directory that a killed process left behind is taken over: the data is kept, everything else is swept.
//   - Children die with the process that started them, also when it is killed with SIGKILL.
//   - The caller holds the directory with Acquire, so that two processes never run on the same data.
package dev
