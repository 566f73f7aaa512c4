package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressEvery is how often a client that asked for it hears where its call stands. Many clients
// end a call that they have heard nothing of for half a minute.
const progressEvery = 2 * time.Second

// tell has a client that asked for progress hear where its call stands, at once and until stop is
// called. Progress is in seconds since the call began, as nobody knows how many there will be.
func tell(ctx context.Context, rq *sdk.CallToolRequest, stands func() string) (stop func()) {
	token := rq.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		start := time.Now()
		for tick := time.NewTicker(progressEvery); ; {
			_ = rq.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ // the client may be gone: the call ends by itself then
				ProgressToken: token, Progress: time.Since(start).Seconds(), Message: stands()})
			select {
			case <-tick.C:
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	}()
	return func() { cancel(); <-over }
}
