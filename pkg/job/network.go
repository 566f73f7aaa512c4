package job

// Network is what a job did with the way out that its policy gave it.
type Network struct {
	Attempts      []NetworkAttempt `json:"attempts"` // alike ones together, in the order of the first; bounded
	Unlisted      int              `json:"unlisted"` // attempts that found no room in the list
	SentBytes     int64            `json:"sent_bytes"`
	ReceivedBytes int64            `json:"received_bytes"`
	Exceeded      bool             `json:"exceeded"` // it reached policy.network.max_bytes and was cut off
}

// NetworkAttempt is one or more tries to reach a host.
type NetworkAttempt struct {
	Protocol      string `json:"protocol"`          // connect, http or socks5
	Host          string `json:"host"`              // name or address; in quotes, as it was written, if it is neither
	Port          int    `json:"port"`              // 0 if it could not be told
	Address       string `json:"address,omitempty"` // that was connected to
	Decision      string `json:"decision"`          // allowed, refused, or failed: allowed, but it could not be reached
	Reason        string `json:"reason,omitempty"`
	Count         int    `json:"count"`
	SentBytes     int64  `json:"sent_bytes"`
	ReceivedBytes int64  `json:"received_bytes"`
}
