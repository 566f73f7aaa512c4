# tries: send what terminals obey, and bytes that are no text
# outcome: succeeded
import os
os.write(1, b"\x1b]0;owned\x07\x1b[2J\xff\xfe\x00\xc3\x28\xed\xa0\x80contained\n")
