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

// refreshAfter is the age from which a blob that is asked for is made young again. Blobs
// that are younger cost nothing besides being looked for.
const refreshAfter = time.Hour

// refresh makes an object as young as one that is written now, if it is older than
// refreshAfter. Blobs are removed by their age, so whoever hears that one is there has to
// be able to count on it. The error wraps job.ErrNotFound if it was removed meanwhile.
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

// touch sets the time of a file. A bucket has no such request: the object is copied onto
// itself there, which S3 takes where it is told to replace the metadata.
func (s *Store) touch(ctx context.Context, key string, now time.Time) error {
	if s.dir != "" {
		err := os.Chtimes(filepath.Join(s.dir, key), now, now)
		if os.IsNotExist(err) {
			_, err = s.bucket.Attributes(ctx, key) // says it in the library's words
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
