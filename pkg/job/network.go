package job

// Network records how a job used its network.
type Network struct {
	Attempts      []NetworkAttempt `json:"attempts"` // equal ones merged, in the order of the first; bounded
	Unlisted      int              `json:"unlisted"` // attempts beyond the bound of the list
	SentBytes     int64            `json:"sent_bytes"`
	ReceivedBytes int64            `json:"received_bytes"`
	Exceeded      bool             `json:"exceeded"` // it reached policy.network.max_bytes and was disconnected
}

// NetworkAttempt is one or more tries to reach a host.
type NetworkAttempt struct {
	Protocol      string `json:"protocol"`          // connect, http or socks5
	Host          string `json:"host"`              // name or address; quoted verbatim if it is neither
	Port          int    `json:"port"`              // 0 if unknown
	Address       string `json:"address,omitempty"` // the address of the connection
	Decision      string `json:"decision"`          // allowed, refused, or failed (allowed but unreachable)
	Reason        string `json:"reason,omitempty"`
	Count         int    `json:"count"`
	SentBytes     int64  `json:"sent_bytes"`
	ReceivedBytes int64  `json:"received_bytes"`
}
