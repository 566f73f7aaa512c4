# tries: leave an archive that must not be unpacked
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/**", "/tmp/**"], "max_files": 50, "max_bytes": "1Mi"}}
# kept: /workspace/bomb.zip /workspace/evil.tar /workspace/hostile.py
from hostile import *

import io, tarfile, zipfile
with zipfile.ZipFile("/workspace/bomb.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("../../etc/cron.d/x", bytes(50 << 20))
with tarfile.open("/workspace/evil.tar", "w") as t:
    i = tarfile.TarInfo("../../../etc/passwd"); i.type = tarfile.SYMTYPE; i.linkname = "/etc/shadow"
    t.addfile(i)
contained()
