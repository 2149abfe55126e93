package control

import (
	"context"
	"encoding/json"
	"fmt"
)

// Ask asks the server one question and decodes the answer into result, unless result is nil. It
// waits, and returns errors, as Call does.
func (l *Client) Ask(ctx context.Context, what string, argument, result any) error {
	question := &Ask{What: what}
	if argument != nil {
		var err error
		if question.Argument, err = json.Marshal(argument); err != nil {
			return fmt.Errorf("ask %q: %w", what, err)
		}
	}
	m, err := l.Call(ctx, question)
	if err != nil {
		return err
	}
	answer, ok := m.(*Answer)
	if !ok {
		return fmt.Errorf("ask %q: %q answers with %s", what, l.server, m.Kind())
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("ask %q: read the answer of %q: %w", what, l.server, err)
	}
	return nil
}
