# tries: change files of the runtime's own directory for the next job
# outcome: succeeded
from hostile import *
for root, dirs, files in os.walk("/run/assay"):
    if root.startswith("/run/assay/root/"):
        dirs[:] = []
        continue
    refused("a file in " + root, open, root + "/hostile", "w")
    refused("a directory in " + root, os.mkdir, root + "/hostile_d")
    refused("rename " + root, os.rename, root, root + "x")
    for f in files:
        path = os.path.join(root, f)
        refused(path, os.open, path, os.O_RDWR)
        refused(path, os.unlink, path)
contained()
