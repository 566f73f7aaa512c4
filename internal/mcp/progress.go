package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressEvery is the interval of progress messages. Many clients end a call after half a minute
// without a message.
const progressEvery = 2 * time.Second

// tell reports progress to a client that requested it, at once and until stop is called. Progress is in seconds since
// the start of the call, because the total is unknown.
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
			// if the client is gone, the call ends by itself
			_ = rq.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
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
