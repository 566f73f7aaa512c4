package object

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
)

// refreshAfter is the age at which a request for a blob renews it. Requests for younger blobs cost
// only the look-up.
const refreshAfter = time.Hour

// refresh renews the age of an object if it is older than refreshAfter. Blobs expire by age, so a
// client that finds a blob must be able to rely on it. The error wraps job.ErrNotFound if the
// object was removed in the meantime.
func (s *Store) refresh(ctx context.Context, have Info) (Info, error) {
	now := time.Now()
	if now.Sub(have.Modified) < refreshAfter {
		return have, nil
	}
	err := s.touch(ctx, have.Key, now)
	if err != nil {
		err = translate(err, "refresh", have.Key)
	}
	s.meter.done(ctx, "refresh", now, err)
	if err != nil {
		return Info{}, err
	}
	have.Modified = now
	return have, nil
}

// touch sets the time of a file. A bucket has no such request, so touch copies the object onto
// itself, which S3 allows when the metadata is replaced.
func (s *Store) touch(ctx context.Context, key string, now time.Time) error {
	if s.dir != "" {
		err := os.Chtimes(filepath.Join(s.dir, key), now, now)
		if os.IsNotExist(err) {
			_, err = s.bucket.Attributes(ctx, key) // returns the library's error
		}
		return err
	}
	return s.bucket.Copy(ctx, key, key, &blob.CopyOptions{BeforeCopy: func(as func(any) bool) error {
		var in *s3.CopyObjectInput
		if as(&in) {
			in.MetadataDirective, in.ContentType = types.MetadataDirectiveReplace, aws.String(contentType)
		}
		return nil
	}})
}
