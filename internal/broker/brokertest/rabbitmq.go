package brokertest

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbit is a server of RabbitMQ outside of this process.
type rabbit struct{ url string }

func (r rabbit) with(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(r.url)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(channel)
}

// create makes a queue that is empty.
func (r rabbit) create(_ context.Context, place string, _ int) error {
	return r.with(func(c *amqp.Channel) error {
		_, err := c.QueueDeclare(place, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		if err == nil {
			_, err = c.QueuePurge(place, false)
		}
		return err
	})
}

func (r rabbit) publish(ctx context.Context, place string, messages []Message) error {
	return r.with(func(c *amqp.Channel) error {
		if err := c.Confirm(false); err != nil {
			return err
		}
		for i := range messages {
			m := &messages[i]
			headers := amqp.Table{}
			for name, value := range m.Headers {
				headers[name] = value
			}
			confirmed, err := c.PublishWithDeferredConfirm("", place, true, false, amqp.Publishing{
				Headers: headers, MessageId: m.ID, Body: m.Body, DeliveryMode: amqp.Persistent, ContentType: "application/json",
			})
			if err != nil {
				return err
			}
			if stored, err := confirmed.WaitContext(ctx); err != nil || !stored {
				return errors.Join(err, errors.New("the server did not confirm the message"))
			}
		}
		return nil
	})
}
